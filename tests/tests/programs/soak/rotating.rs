//! A name with a new address in every answer: its set is the union of the unexpired ones.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{
    monitor::Update,
    soak,
    upstream::{Asked, Scripted, Speech},
};
use tokio::time::{Instant, interval};

use super::{looking_up, rotating};

const NAME: &str = "rotating.up.test.";

const TTL: Duration = Duration::from_secs(5);

const GRACE: Duration = Duration::from_secs(1);

/// The period in which an address was in a set, by the updates.
#[derive(Debug, Default)]
struct Stay {
    came: Option<Instant>,
    left: Option<Instant>,
}

/// The periods of all addresses in the sets of the name.
///
/// # Panics
/// If an address came twice: each was answered once.
fn stays(updates: &[Update]) -> BTreeMap<IpAddr, Stay> {
    let mut stays: BTreeMap<IpAddr, Stay> = BTreeMap::new();
    for update in updates {
        for row in update.rows.values().flatten() {
            let Some(family) = Family::ALL.into_iter().find(|f| row.is_of(NAME, *f)) else {
                continue;
            };
            let now = row.sorted_addresses();
            for ip in &now {
                let stay = stays.entry(*ip).or_default();
                assert!(stay.left.is_none(), "{ip} came back");
                stay.came.get_or_insert(update.at);
            }
            let of_family = |ip: &IpAddr| ip.is_ipv4() == (family == Family::V4);
            for (ip, stay) in stays.iter_mut().filter(|(ip, _)| of_family(ip)) {
                if !now.contains(ip) {
                    stay.left.get_or_insert(update.at);
                }
            }
        }
    }
    stays
}

#[tokio::test]
async fn the_set_of_a_rotating_name_is_always_the_union_of_unexpired_answers() {
    let lasts = soak::or_long(Duration::from_secs(12), Duration::from_secs(60));
    // An answer reaches its set after CoreDNS's flush, at most a second, and the way through both programs. Its
    // look-up, from whose end its TTL counts, ended within the same time. An expired address is looked up again within
    // its grace, so it leaves on time: at the next tick of a clock that is checked each second.
    let slack = Duration::from_secs(3);

    let answered = Arc::new(Mutex::new(BTreeMap::new()));
    let record = Arc::clone(&answered);
    let answered_with = move |ip, asked: &Asked| {
        record.lock().unwrap().insert(ip, asked.at);
    };
    let upstream = Scripted::start(rotating(TTL, answered_with)).await;
    let world = looking_up(&upstream, &[NAME], &["--grace", "1s"]).await;
    let history = world.monitor().await;

    let mut told = BTreeMap::new();
    let mut pace = interval(Duration::from_millis(250));
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        pace.tick().await;
        for kind in [RecordType::A, RecordType::AAAA] {
            let reply = world.coredns.ask(NAME, kind).await;
            assert_eq!(reply.addresses().len(), 1);
            told.insert(reply.addresses()[0], reply.at);
        }
    }
    let end = Instant::now();
    // From now on the answer stays the same, and finally only its address remains.
    upstream.change(|asked| {
        let fixed = ["192.0.2.1", "2001:db8:1::1"];
        asked.addresses(&fixed, 300).say()
    });
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.1"]).await;
    world.expect_set(NAME, Family::V6, &["2001:db8:1::1"]).await;

    // This waits until the monitor has the current state.
    history.departures().await;
    let answered = answered.lock().unwrap().clone();
    let stays = stays(&history.updates());
    let mut delays = Vec::new();
    for (ip, at) in &told {
        let came = stays.get(ip).and_then(|stay| stay.came);
        let came = came.unwrap_or_else(|| panic!("{ip} never came, and a pod was told of it"));
        delays.push(came - *at);
    }
    let slowest = soak::print_delays("told to a pod, until in its set", delays);
    soak::judge("the latest to come", slowest, slack);

    let mut late = Vec::new();
    let rotating = |ip: &IpAddr| answered.contains_key(ip);
    for (ip, stay) in stays.iter().filter(|(ip, _)| rotating(ip)) {
        let over = answered[ip] + TTL + GRACE;
        let left = stay.left.unwrap_or_else(|| panic!("{ip} has not left"));
        assert!(left >= over, "{ip} left {:?} too early", over - left);
        if left < end {
            late.push(left - over);
        }
    }
    assert!(stays.len() > told.len(), "the collector asked itself, too");
    let latest = soak::print_delays("over, until out of its set", late);
    soak::judge("the latest to leave", latest, slack);
    println!(
        "{} answers, of which {} to pods",
        answered.len(),
        told.len()
    );
}

//! Full wildcards whose addresses change all the time.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use hickory_proto::op::ResponseCode;
use tests::{
    or_skip,
    pods::Load,
    soak::{is_long, or_long, print_delays},
    upstream::{Asked, Say, Speech},
    wait::eventually,
};
use tokio::time::{Instant, interval};

use super::{
    Cluster, allow,
    zones::{EIGHT, ONE},
};

/// `r7.s8.test.` has another address in each answer.
fn rotating() -> impl Fn(&Asked) -> Vec<Say> + Send + Sync {
    let count = AtomicU32::new(0);
    move |asked| {
        if !asked.is_v4() {
            return asked.reply(ResponseCode::NoError).say();
        }
        let next = count.fetch_add(1, Ordering::SeqCst);
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(12, 0, 0, 0).to_bits() + next);
        asked.ips(&[address.into()], 1).say()
    }
}

impl Cluster {
    async fn writes(&self, spec: &str) -> usize {
        let name = eventually("there is an object", async || self.object(spec).await).await;
        let answers = self
            .server
            .answers("admin", ("update", "dnsnameresolvers/status"));
        answers
            .iter()
            .filter(|(_, of, code)| *of == name && *code == 200)
            .count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_wildcard_that_changes_all_the_time_delays_no_small_object() {
    // Of an object, a second. etcd's pages are not full, and there are other objects.
    const RATE: f64 = 131_072.0;
    const SAVED: f64 = 10.0 * RATE;
    const OBJECT: f64 = 1_100_000.0;
    const MORE: f64 = 1.25;
    let mut cluster = or_skip!(Cluster::start(rotating(), &[]).await);
    let bad = cluster.tenant("bad", allow(&[EIGHT.wildcard]), 1).await;
    let team = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
    let labels = (0..800).map(|number| EIGHT.name(number));
    bad[0].ask_all(labels, EIGHT.kind()).await;
    cluster
        .collector
        .program
        .counts("egress_collector_evictions_total", &[], 1.0)
        .await;

    // Names leave the collector's memory before it has created the object.
    let writes = cluster.writes(EIGHT.wildcard).await;
    let (began, bytes) = (Instant::now(), cluster.server.stored_bytes().await);
    let load = Load::start(&bad[0], 50, |number| format!("r{}.s8.test.", number % 20));
    let lasts = or_long(15, 600);
    let mut pace = interval(Duration::from_secs(4));
    let mut delays = Vec::new();
    while began.elapsed().as_secs() < lasts {
        pace.tick().await;
        let (number, asked) = (delays.len() as u32, Instant::now());
        cluster
            .flows(&team[0], ONE.wildcard, &ONE.name(number))
            .await;
        delays.push(asked.elapsed());
    }
    let answers = load.answers();
    drop(load);
    let writes = cluster.writes(EIGHT.wildcard).await - writes;
    let bytes = cluster.server.stored_bytes().await - bytes;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{answers} answers with new addresses in {seconds:.1} s: {writes} writes of the full wildcard, etcd grew by {:.1} MB",
        bytes / 1e6
    );
    let slowest = delays.iter().max().copied().unwrap_or_default();
    print_delays("a name of another namespace, to its status", delays);
    assert!(answers > 100, "{answers}");
    assert!(
        !is_long() || slowest <= Duration::from_secs(1),
        "{slowest:?}"
    );
    let most = (SAVED + RATE * seconds + OBJECT) * MORE;
    assert!(bytes <= most, "{bytes} of {most}");
}

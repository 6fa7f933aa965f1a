//! Two collectors that both hear CoreDNS, of which one after the other is killed, paused or restarted.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use rustix::process::Signal;
use tests::{
    monitor::Update,
    programs::Program,
    soak,
    upstream::{Scripted, Speech},
    wait::eventually,
    world::{Setup, World},
};
use tokio::time::{Instant, interval};

use super::address;

const NAME: &str = "rotating.up.test.";

const TTL: Duration = Duration::from_secs(5);

/// An address that a client was told is in its set after so long.
const LATEST: Duration = Duration::from_millis(2_500);

/// When each address was in the set of the name: from when until when.
fn stays(updates: &[Update]) -> BTreeMap<IpAddr, Vec<(Instant, Option<Instant>)>> {
    let mut stays: BTreeMap<IpAddr, Vec<(Instant, Option<Instant>)>> = BTreeMap::new();
    for update in updates {
        for row in update
            .rows
            .values()
            .flatten()
            .filter(|row| row.is_of(NAME, Family::V4))
        {
            let now = row.sorted_addresses();
            for ip in &now {
                let stays = stays.entry(*ip).or_default();
                if stays.last().is_none_or(|(_, left)| left.is_some()) {
                    stays.push((update.at, None));
                }
            }
            for (ip, stays) in &mut stays {
                if let Some((_, left)) = stays.last_mut()
                    && !now.contains(ip)
                {
                    left.get_or_insert(update.at);
                }
            }
        }
    }
    stays
}

async fn expect_heard(collectors: [&Program; 2]) {
    for collector in collectors {
        collector.counts("collector_connections", &[], 1.0).await;
    }
    eventually("one leads", async || {
        let mut leading = 0.0;
        for collector in collectors {
            let metric = collector.admin().metric("replica_leading", &[]).await;
            leading += metric.map_err(|error| error.to_string())?;
        }
        (leading == 1.0)
            .then_some(())
            .ok_or_else(|| leading.to_string())
    })
    .await;
}

/// What is done to a collector, and for how long it does not work.
async fn disturb(collector: &mut Program, round: u32) {
    let pause = tokio::time::sleep(Duration::from_secs(4));
    match round % 3 {
        0 => {
            collector.process().kill();
            pause.await;
            collector.restart().await;
        }
        1 => {
            collector.process().signal(Signal::STOP);
            pause.await;
            collector.process().signal(Signal::CONT);
        }
        _ => {
            collector.process().terminate().await;
            collector.restart().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_collector_is_killed_paused_or_restarted_what_clients_are_told_is_in_its_set() {
    let count = AtomicU32::new(0);
    let upstream = Scripted::start(move |asked| {
        let ip = address(count.fetch_add(1, Ordering::SeqCst), asked.is_v6());
        asked.ips(&[ip], TTL.as_secs() as u32).say()
    })
    .await;
    let mut world = World::start(Setup {
        allow: &[NAME],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    world.restart_asking(&["--grace", "1s"]).await;
    let socket = world.workdir.join("second.sock").display().to_string();
    let args = [
        "--store",
        &world.store.address(),
        "--listen",
        &format!("unix://{socket}"),
        "--resolver",
        &world.coredns.address().to_string(),
        "--grace",
        "1s",
    ];
    let args = args.map(str::to_owned).to_vec();
    let mut second = Program::start(world.workdir.path(), "collector", args).await;
    let corefile = fs::read_to_string(world.workdir.join("Corefile")).unwrap();
    let line = "dnstap unix://{$DNSTAP_SOCKET} full";
    let both = format!("{line}\n    dnstap unix://{socket} full");
    fs::write(
        world.workdir.join("Corefile"),
        corefile.replace(line, &both),
    )
    .unwrap();
    world.coredns.restart().await;
    expect_heard([&world.collector, &second]).await;
    world.look_up(NAME).await;
    let history = world.monitor().await;

    let told = Arc::new(std::sync::Mutex::new(BTreeMap::new()));
    let (record, server) = (Arc::clone(&told), world.coredns.address());
    let client = tokio::spawn(async move {
        let mut pace = interval(Duration::from_millis(100));
        loop {
            pace.tick().await;
            if let Ok(reply) = tests::dns::ask(server, NAME, RecordType::A).await {
                let told = reply.addresses().into_iter().map(|ip| (ip, reply.at));
                record.lock().unwrap().extend(told);
            }
        }
    });
    for round in 0..soak::or_long(3, 30) {
        // The one that leads, and the other one.
        let leads = world.collector.admin().metric("replica_leading", &[]).await;
        let is_first = (leads.unwrap() > 0.5) == (round / 3 % 2 == 0);
        let collector = if is_first {
            &mut world.collector
        } else {
            &mut second
        };
        disturb(collector, round).await;
        expect_heard([&world.collector, &second]).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    client.abort();
    // What was told last has come, and its time is over.
    tokio::time::sleep(TTL).await;
    history.departures().await;
    let stays = stays(&history.updates());
    let mut delays = Vec::new();
    let mut missing = Vec::new();
    for (ip, at) in told.lock().unwrap().iter() {
        let Some(stays) = stays.get(ip) else {
            missing.push(format!("{ip} never came"));
            continue;
        };
        let came = stays.first().map_or(*at, |(came, _)| *came);
        delays.push(came.saturating_duration_since(*at));
        for (_, left) in stays {
            let over = *at + TTL;
            if let Some(left) = left.filter(|left| *left < over) {
                missing.push(format!(
                    "{ip} left {:?} before its TTL was over",
                    over - left
                ));
            }
        }
    }
    let latest = super::print_delays("told to a client, until in its set", delays);
    assert_eq!(missing, [""; 0]);
    soak::judge("the latest to come", latest, LATEST);
}

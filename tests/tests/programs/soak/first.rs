//! How often the first connection to a name succeeds at once, and how long others have to wait.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use tests::{
    northbound::Row,
    or_skip,
    soak::{judge, or_long},
    wait::{PATIENCE, eventually},
};
use tokio::time::sleep;

use crate::packets::datapath_fixture::{DatapathFixture, PORT};

/// The time-out of one attempt when packets are dropped. It is shorter than the kernel's retransmission time.
fn attempt() -> Duration {
    Duration::from_millis(or_long(900, 10))
}

/// The intervals of the collector's flush probes.
const PROBES: &[&str] = &["0", "100ms", "10ms", "2ms"];

/// The zone of the wildcard for a mode: each has its own, so that none is filled by another.
fn zone_of(mode: usize) -> String {
    format!("p{mode}.w.example.com.")
}

/// The time until packets pass with a probe every 10 ms.
const MEDIAN: Duration = Duration::from_millis(30);

/// The time from the answer to the first successful connection, and whether that was the first attempt.
async fn first_connection(town: &DatapathFixture, name: &str) -> (Duration, bool) {
    let addresses = town.look_up(name);
    let answered = Instant::now();
    let [address]: [Ipv4Addr; 1] = addresses.try_into().unwrap();
    let to = SocketAddr::from((address, PORT));
    let mut attempts = 0;
    while town.pod.connect_within(to, attempt()).is_err() {
        attempts += 1;
        let waited = answered.elapsed();
        assert!(waited < PATIENCE, "{name}: no connection");
    }
    (answered.elapsed(), attempts == 0)
}

/// Returns the median.
fn print(what: &str, probe: &str, mut delays: Vec<(Duration, bool)>) -> Duration {
    delays.sort_unstable();
    let count = delays.len();
    let at_once = delays.iter().filter(|(_, at_once)| *at_once).count();
    let at = |share: usize| delays[(count * share / 100).min(count - 1)].0.as_secs_f64() * 1e3;
    println!(
        "{what:<22} {probe:>6}: {:>4} % at once; packets passed after ms: p50 {:>6.1}, p90 {:>6.1}, max {:>6.1}",
        at_once * 100 / count,
        at(50),
        at(90),
        at(100)
    );
    delays[count / 2].0
}

#[tokio::test(flavor = "multi_thread")]
async fn first_connections_succeed_at_once_by_name_and_soon_by_wildcard() {
    let count = or_long(3, 60);
    let known: Vec<_> = (0..count)
        .map(|n| format!("known{n}.example.com."))
        .collect();
    let zone: String = (0..count)
        .map(|n| format!("known{n} IN A 192.0.2.{}\n", n + 100))
        .collect();
    let probes = or_long(&["0", "10ms"][..], PROBES);
    let wildcards = (0..probes.len()).map(|mode| format!("*.{}", zone_of(mode)));
    let wildcards: Vec<_> = wildcards.collect();
    let names: Vec<&str> = known.iter().chain(&wildcards).map(String::as_str).collect();
    let mut town = or_skip!(DatapathFixture::start(&zone, &names, &[]).await);
    // So far only the collector has queried these.
    let mut delays = Vec::new();
    let sets = async || {
        let rows = town.northbound.rows()?;
        let is_known = |row: &&Row| row.dns_name().is_some_and(|name| name.starts_with("known"));
        let filled = rows.iter().filter(is_known);
        let filled = filled.filter(|row| !row.addresses.is_empty()).count();
        (filled == count)
            .then_some(())
            .ok_or_else(|| filled.to_string())
    };
    eventually("the sets of the names", sets).await;
    // OVN refused packets until it had read the new sets.
    town.settled().await;
    for name in &known {
        delays.push(first_connection(&town, name).await);
    }
    assert!(delays.iter().all(|(_, at_once)| *at_once), "{delays:?}");
    print("names with a rule", "any", delays);

    for (mode, &probe) in probes.iter().enumerate() {
        town.restart_collector(&["--flush-probe", probe]).await;
        if probe != "0" {
            let streaming = ["state=\"streaming\""];
            town.collector
                .counts("egress_collector_dns_blocks", &streaming, 1.0)
                .await;
        }
        let longest = Duration::from_millis(if probe == "0" { 1000 } else { 100 });
        let mut delays = Vec::new();
        // The first one shows that the stream works.
        for n in 0..=count {
            // Otherwise each would come just after CoreDNS has flushed its stream.
            sleep(longest * (n as u32 * 37 % 100) / 100).await;
            let delay = first_connection(&town, &format!("f{mode}-{n}.{}", zone_of(mode))).await;
            delays.push(delay);
        }
        let median = print("names under a wildcard", probe, delays.split_off(1));
        if probe == "10ms" {
            judge("the median", median, MEDIAN);
        }
    }
}

//! Pods that query thousands of names under wildcards that other namespaces use.

use std::{collections::BTreeSet, ops::Range};

use futures_util::future::join_all;
use serde_json::Value;
use tests::{or_skip, pods::Pod, soak::or_long, wait::eventually};

use super::{
    Cluster, allow, no_data,
    zones::{self, EIGHT, ONE, Zone},
};
use crate::history::History;

/// Disables the limit of new names, which another test covers: only the order of eviction protects.
const ANY_RATE: &str = "--new-names-rate=0";

const TEAMS: [&str; 3] = ["team-a", "team-b", "team-c"];

/// More labels than a wildcard may have names.
const LABELS: u32 = 1_500;

/// The maximum number of names under a wildcard.
const CAP: usize = 1_024;

/// The first `count` names that the teams' pods use. Attacks use lower numbers.
fn honest_names(zone: Zone, count: u32) -> BTreeSet<String> {
    let numbers = 40_000..40_000 + count;
    numbers.map(|number| zone.name(number)).collect()
}

/// Creates the teams, whose pods may use the names in these zones and query this many of each. Returns when all are in
/// the statuses.
async fn work_honestly(cluster: &mut Cluster, zones: &[(Zone, u32)]) {
    let wildcards: Vec<&str> = zones.iter().map(|(zone, _)| zone.wildcard).collect();
    let mut pods = Vec::new();
    for team in TEAMS {
        let made = cluster.tenant(team, allow(&wildcards), or_long(8, 34));
        pods.extend(made.await);
    }
    for (zone, count) in zones {
        let names = honest_names(*zone, *count);
        let ask = |(number, pod): (usize, &Pod)| {
            let own = names.iter().skip(number).step_by(pods.len());
            let own: Vec<String> = own.cloned().collect();
            let pod = pod.clone();
            async move { pod.ask_all(own, zone.kind()).await }
        };
        join_all(pods.iter().enumerate().map(ask)).await;
        eventually("the names that pods use are known", async || {
            let missing = names
                .difference(&cluster.names(zone.wildcard).await?)
                .count();
            (missing == 0)
                .then_some(())
                .ok_or(format!("{missing} are not"))
        })
        .await;
    }
}

/// The pod queries these labels. Returns, once the last is in the status, how many of the honest names are missing.
async fn attack(
    cluster: &Cluster,
    pod: &Pod,
    zone: Zone,
    labels: Range<u32>,
    honest: &BTreeSet<String>,
) -> usize {
    let last = zone.name(labels.end);
    let labels = labels.map(|number| zone.name(number));
    pod.ask_all(labels, zone.kind()).await;
    pod.ask(&last, zone.kind()).await;
    let names = cluster.has(zone.wildcard, &last).await;
    honest.difference(&names).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_others_stay_while_a_pod_asks_for_random_labels() {
    // Names with 16 addresses fill most of an object.
    const HONEST: u32 = 200;
    let mut cluster = or_skip!(Cluster::start(no_data, &[ANY_RATE]).await);
    let wildcards = zones::ALL.map(|zone| zone.wildcard);
    let bad = cluster.tenant("bad", allow(&wildcards), 1).await;
    let stranger = cluster.tenant("stranger", None, 1).await;
    work_honestly(&mut cluster, &zones::ALL.map(|zone| (zone, HONEST))).await;
    let history = History::of(&cluster.server, super::NAMESPACE).await;

    // A pod without a rule attacks first: beside other names its labels are evicted before they are written.
    let labels = (0..LABELS).map(|number| EIGHT.name(10_000 + number));
    stranger[0].ask_all(labels, EIGHT.kind()).await;
    let mut lost = Vec::new();
    for zone in zones::ALL {
        let honest = honest_names(zone, HONEST);
        lost.push(attack(&cluster, &bad[0], zone, 0..LABELS, &honest).await);
    }
    let evicted = cluster
        .collector
        .metric("egress_collector_evictions_total", &[]);
    println!("{lost:?} of {HONEST} lost, {} evictions", evicted.await);
    assert_eq!(lost, [0; zones::ALL.len()]);
    let honest = zones::ALL.into_iter();
    let honest: BTreeSet<_> = honest.flat_map(|zone| honest_names(zone, HONEST)).collect();
    let mut left = history.departures().await;
    left.retain(|departure| honest.contains(&departure.name));
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_stay_as_well_after_a_restart_and_a_take_over() {
    let mut cluster = or_skip!(Cluster::start(no_data, &[ANY_RATE]).await);
    let wildcards = [ONE.wildcard, EIGHT.wildcard];
    let bad = cluster.tenant("bad", allow(&wildcards), 1).await;
    let zones = [(ONE, 1_000), (EIGHT, 300)];
    work_honestly(&mut cluster, &zones).await;
    let [one, eight] = zones.map(|(zone, count)| honest_names(zone, count));

    cluster.restart().await;
    let restarted = attack(&cluster, &bad[0], ONE, 0..LABELS, &one).await;
    cluster.take_over().await;
    let taken_over = attack(&cluster, &bad[0], EIGHT, 0..LABELS, &eight).await;
    println!("{restarted} of 1,000 and {taken_over} of 300 lost");
    assert_eq!([restarted, taken_over], [0, 0]);
}

/// The pod queries these labels in order. Returns the kept labels that are older than an evicted one.
async fn kept_too_long(cluster: &Cluster, pod: &Pod, labels: Range<u32>) -> Vec<String> {
    for number in labels.clone() {
        pod.ask(&ONE.name(number), ONE.kind()).await;
    }
    let kept = cluster.has(ONE.wildcard, &ONE.name(labels.end - 1)).await;
    println!("{} names are kept", kept.len());
    assert!((CAP / 2..=CAP).contains(&kept.len()), "{}", kept.len());
    let last = (labels.end - kept.len() as u32)..labels.end;
    let last: BTreeSet<String> = last.map(|number| ONE.name(number)).collect();
    kept.difference(&last).cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_names_that_come_one_after_another_those_seen_last_stay() {
    let count = or_long(3_000, 20_000);
    for attempts_left in (0..3).rev() {
        let mut cluster = or_skip!(Cluster::start(no_data, &[ANY_RATE]).await);
        let pods = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
        let kept = kept_too_long(&cluster, &pods[0], 0..count).await;
        if kept.is_empty() {
            return;
        }
        // A machine that halts makes the collector look names up, or lose the lead for a moment. Then a look-up or a status
        // brings evicted names back.
        let looked_up = cluster
            .collector
            .metric("egress_collector_lookups_total", &[]);
        let has_looked_up = looked_up.await > 0.0;
        let messages = cluster.collector.program.messages();
        let is_end = |it: &Value| it.to_string().contains("no longer leading");
        let was_disturbed = has_looked_up || messages.iter().any(is_end);
        assert!(
            was_disturbed && attempts_left > 0,
            "others went before {kept:?}; looked up: {has_looked_up}; the log: {messages:?}"
        );
    }
}

/// The wildcard is full, and then another process becomes the leading collector.
async fn those_seen_last_stay_after(change: impl AsyncFnOnce(&mut Cluster)) {
    let full = CAP as u32;
    let mut cluster = or_skip!(Cluster::start(no_data, &[ANY_RATE]).await);
    let pods = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
    assert_eq!(kept_too_long(&cluster, &pods[0], 0..full).await, [""; 0]);
    change(&mut cluster).await;
    // A new leader does not know which names pods use. It sorts them by their look-ups until pods query them.
    let program = &cluster.collector.program;
    program
        .counts("egress_collector_lookups_total", &[], f64::from(full))
        .await;
    // All names are due again after a gap. An evicted one must not come back by its look-up.
    cluster.coredns.restart().await;
    // A name from a status counts for no namespace until a pod queries it again.
    assert_eq!(
        kept_too_long(&cluster, &pods[0], 0..2 * full).await,
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_seen_last_stay_after_a_restart() {
    those_seen_last_stay_after(Cluster::restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_seen_last_stay_after_a_take_over() {
    those_seen_last_stay_after(Cluster::take_over).await;
}

//! Pods that query thousands of names under wildcards that other namespaces use.

use std::{collections::BTreeSet, ops::Range};

use futures_util::future::join_all;
use tests::{or_skip, pods::Pod, soak::or_long, wait::eventually};

use super::{
    Cluster, allow, no_data,
    zones::{self, EIGHT, ONE, Zone},
};
use crate::history::History;

const TEAMS: [&str; 3] = ["team-a", "team-b", "team-c"];

/// More labels than a wildcard may have names.
const LABELS: u32 = 1_500;

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
    let names = cluster.arrives(pod, zone.wildcard, (&last, zone.kind()));
    let names = names.await;
    honest.difference(&names).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_others_stay_while_a_pod_asks_for_random_labels() {
    // Names with 16 addresses fill most of an object.
    const HONEST: u32 = 200;
    let mut cluster = or_skip!(Cluster::start(no_data, &[]).await);
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
    let mut cluster = or_skip!(Cluster::start(no_data, &[]).await);
    let wildcards = [ONE.wildcard, EIGHT.wildcard];
    let bad = cluster.tenant("bad", allow(&wildcards), 1).await;
    let zones = [(ONE, 900), (EIGHT, 300)];
    work_honestly(&mut cluster, &zones).await;
    let [one, eight] = zones.map(|(zone, count)| honest_names(zone, count));

    cluster.restart().await;
    let restarted = attack(&cluster, &bad[0], ONE, 0..LABELS, &one).await;
    cluster.take_over().await;
    let taken_over = attack(&cluster, &bad[0], EIGHT, 0..LABELS, &eight).await;
    println!("{restarted} of 900 and {taken_over} of 300 lost");
    assert_eq!([restarted, taken_over], [0, 0]);
}

//! Rules of one namespace, about names that others use.

use proto::api::RuleType;
use tests::{or_skip, wait::eventually};

use super::{Cluster, allow, no_data, zones::ONE};
use crate::collectors::egress_firewall;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deny_rule_and_random_labels_leave_the_allow_rule_of_another_alone() {
    // More than fit into an object.
    const LABELS: u32 = 1_500;
    let mut cluster = or_skip!(Cluster::start(no_data, &[]).await);
    let mut deny = egress_firewall(&[ONE.wildcard]);
    deny.spec.egress[0].rule_type = RuleType::Deny;
    let bad = cluster.tenant("bad", Some(deny), 1).await;
    let team = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
    let labels = (0..LABELS).map(|number| ONE.name(number));
    bad[0].ask_all(labels, ONE.kind()).await;
    eventually("the wildcard is full", async || {
        let evicted = cluster
            .collector
            .metric("egress_collector_evictions_total", &[]);
        let full = cluster.names(ONE.wildcard).await?.len() >= 1_000;
        (full || evicted.await > 0.0)
            .then_some(())
            .ok_or_else(String::new)
    })
    .await;
    cluster
        .flows(&team[0], ONE.wildcard, &ONE.name(40_000))
        .await;
    cluster.tells("bad", "DeniedAddressesLeftOut").await;
}

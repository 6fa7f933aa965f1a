//! Rules and annotations of one namespace, about names that others use.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use hickory_proto::op::ResponseCode;
use proto::api::RuleType;
use tests::{
    or_skip,
    upstream::{Asked, Speech},
    wait::eventually,
};

use super::{Cluster, allow, no_data, zones::ONE};
use crate::collectors::egress_firewall;

const SHARED: &str = "www.shared.test.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deny_rule_and_random_labels_leave_the_allow_rule_of_another_alone() {
    // More than fit into an object.
    const LABELS: u32 = 1_500;
    let mut cluster = or_skip!(Cluster::start(no_data, &["--new-names-rate=0"]).await);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_above_the_ceilings_hold_no_address_of_others() {
    let last = Arc::new(AtomicU8::new(1));
    let script = {
        let last = Arc::clone(&last);
        move |asked: &Asked| match asked.is_v4() {
            true => {
                let address = [203, 0, 113, last.load(Ordering::SeqCst)].into();
                asked.ips(&[address], 1).say()
            }
            false => asked.reply(ResponseCode::NoError).say(),
        }
    };
    let flags = [
        "--min-ttl=1s",
        "--grace=1s",
        "--max-grace=2s",
        "--max-min-ttl=2s",
    ];
    let mut cluster = or_skip!(Cluster::start(script, &flags).await);
    let team = cluster.tenant("team", allow(&[SHARED]), 1).await;
    let mut greedy = egress_firewall(&[SHARED]);
    let annotations = [("grace", "5000000000h"), ("min-ttl", "24h")];
    let annotations = annotations.map(|(key, value)| {
        let key = format!("dnsnameresolver.network.openshift.io/{key}");
        (key, value.to_owned())
    });
    greedy.metadata.annotations = Some(annotations.into());
    cluster.tenant("greedy", Some(greedy), 0).await;
    cluster.flows(&team[0], SHARED, SHARED).await;
    cluster.objects.expect(SHARED, &["203.0.113.1"]).await;

    // The name is looked up all the time, and addresses missing in its answers leave.
    for number in 2..5 {
        last.store(number, Ordering::SeqCst);
        let address = format!("203.0.113.{number}");
        cluster.objects.expect(SHARED, &[&address]).await;
    }
    cluster.tells("greedy", "AnnotationClamped").await;
}

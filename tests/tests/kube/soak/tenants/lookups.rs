//! Names whose servers do not answer.

use hickory_proto::op::ResponseCode;
use tests::{
    or_skip,
    soak::or_long,
    upstream::{Asked, Say, Speech},
    wait::eventually,
};
use tokio::time::Instant;

use super::{Cluster, allow};
use crate::collectors::egress_firewall;

const NEW: &str = "www.new.test.";

fn is_silent(asked: &Asked) -> bool {
    asked.name().ends_with(".silent.test.")
}

fn script(asked: &Asked) -> Vec<Say> {
    match is_silent(asked) {
        true => Vec::new(),
        false if asked.is_v4() => asked.addresses(&["192.0.2.1"], 3_600).say(),
        false => asked.reply(ResponseCode::NoError).say(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_name_does_not_wait_for_those_of_others_whose_servers_are_silent() {
    let count = or_long(2_000, 8_000);
    let mut cluster = or_skip!(Cluster::start(script, &[]).await);
    let names: Vec<String> = (0..count)
        .map(|number| format!("n{number}.silent.test."))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.tenant("greedy", allow(&names), 0).await;
    eventually(
        "all wait for their turn, and many for an answer",
        async || {
            let scheduled = cluster
                .collector
                .metric("egress_collector_lookups_scheduled", &[])
                .await;
            let asked = cluster.upstream.count(is_silent);
            let begun = scheduled >= f64::from(count) && asked > 20;
            begun
                .then_some(())
                .ok_or_else(|| format!("{scheduled} wait, {asked} questions"))
        },
    )
    .await;

    cluster.server.make_namespace("team").await;
    let asked = Instant::now();
    cluster.set_rules("team", &egress_firewall(&[NEW])).await;
    cluster.objects.expect(NEW, &["192.0.2.1"]).await;
    let all = cluster.upstream.asked_for(|it| it.at >= asked);
    let position = all.iter().position(|it| it.name() == NEW);
    let before = position.expect("it was asked for");
    println!(
        "{:?} until a new name has its address; {before} questions came before its own",
        asked.elapsed()
    );
    assert!(before < names.len() / 4, "{before}");
}

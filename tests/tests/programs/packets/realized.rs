//! The ovn-writer finds out when the switch has a change.

use serde_json::Value;
use tests::{
    datapath::{Datapath, create_namespace, set_egress_firewall},
    northbound::Northbound,
    or_skip,
    programs::{Program, run},
    store::Store,
    workdir::Workdir,
};

use super::{
    NAME, NETWORK, ONE, PORT,
    datapath_fixture::{OTHERS, POD, TEAM},
    passes,
};
use crate::addresses::{Watch, line_with};

#[tokio::test]
async fn the_ovn_writer_tells_when_the_switch_has_a_change() {
    let workdir = Workdir::new();
    let northbound = Northbound::start(workdir.path()).await;
    let mut datapath = or_skip!(Datapath::start(workdir.path(), &northbound).await);
    OTHERS.create(&northbound);
    create_namespace(&northbound, TEAM);
    let pod = datapath.pod(&northbound, TEAM, "pod", POD).await;
    let outside = datapath.outside();
    outside.owns(NETWORK);
    outside.serve(PORT);
    set_egress_firewall(&northbound, TEAM, &[NAME]);

    let store = Store::new(workdir.join("store"));
    store.write_status(NAME, &["192.0.2.10"]);
    let inspect = format!("unix://{}", workdir.join("inspect.sock").display());
    let vswitchd = datapath.switch_control().display().to_string();
    let args = [
        ("--store", store.address()),
        ("--nb", northbound.remote()),
        ("--sb", datapath.southbound()),
        ("--vswitchd-ctl", vswitchd),
        ("--inspect", inspect.clone()),
        // One sample, unless changes are watched.
        ("--realized-interval", "1h".to_owned()),
    ];
    let args = args.map(|(flag, value)| format!("{flag}={value}"));
    let writer = Program::start(workdir.path(), "ovn-writer", args.to_vec()).await;
    passes(pod, ONE).await;
    for until in ["rules", "cached_flows"] {
        for from in ["event", "commit"] {
            let labels = [&*format!("until=\"{until}\""), &format!("from=\"{from}\"")];
            let metric = "egress_ovn_writer_realized_seconds_count";
            writer.counts(metric, &labels, 1.0).await;
        }
    }
    let explain = |more: &'static [&str]| {
        let args = [&["explain", NAME, "--ovn-writer", &inspect], more].concat();
        async move { run("egress", &args).await.stdout }
    };
    let text = String::from_utf8(explain(&[]).await).unwrap();
    assert!(text.contains("cached flows were gone after "), "{text}");
    let explained: Value = serde_json::from_slice(&explain(&["-o", "json"]).await).unwrap();
    let realized = &explained["ovnWriters"][0]["answer"]["realized"];
    let northd = realized["northd"].as_str().unwrap();
    // The proof that this version of OVN gives.
    let proof = if northd.starts_with("23.") {
        "assumed"
    } else {
        "confirmed"
    };
    assert_eq!(realized["last"]["proof"], proof, "{realized}");
    assert!(
        realized["last"]["rulesMs"].as_f64() > Some(0.0),
        "{realized}"
    );

    let mut watch = Watch::start(&[
        format!("--ovn-writer={inspect}"),
        // Without a collector, the row is told alone.
        "--missing-after=5s".to_owned(),
    ]);
    watch.notes("watching the ovn-writer", 1).await;
    store.write_status(NAME, &["192.0.2.10", "192.0.2.20"]);
    let line = line_with(&mut watch.out, "192.0.2.20").await;
    let told: Value = serde_json::from_str(&line).unwrap();
    let realized = &told["rows"][0]["realized"];
    assert_eq!(realized["proof"], proof, "{line}");
    let legs = &told["milliseconds"];
    for leg in ["row", "rules", "cachedFlows"] {
        assert!(legs[leg].as_i64() >= Some(0), "{leg}: {line}");
    }
    assert_eq!(told["withoutRules"], serde_json::json!([]), "{line}");
}

//! A new administrator's way: everything works, something breaks, `egress` alone tells why, and its cure mends it.

use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tests::{or_skip, wait::eventually};
use tokio::task::spawn_blocking;

use super::{finds, is_well};
use crate::{
    chart::path_with_tools,
    installation::{ADDRESS, COREFILE, DNS_NAMESPACE, Installation, NAME},
};

/// The text below the line of a check that begins so.
fn cure(text: &str, seen: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(seen));
    lines.nth(1).unwrap().trim().to_owned()
}

/// Runs a command that a check has printed.
async fn follow(it: &Installation, command: String) {
    let kubeconfig = it.server.kubeconfig();
    let run = move || {
        Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command])
            .env("KUBECONFIG", kubeconfig)
            .env("PATH", path_with_tools())
            .output()
            .unwrap()
    };
    let output = spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cures_that_a_check_prints_mend_what_broke() {
    let mut it = or_skip!(Installation::start().await);
    is_well(&it).await;
    let client = it.server.client().await;

    // An add-on reverts the Corefile, and CoreDNS reads it.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let reverted = COREFILE.lines().filter(|line| !line.contains("dnstap"));
    let reverted: Vec<&str> = reverted.collect();
    let patch = Patch::Merge(json!({ "data": { "Corefile": reverted.join("\n") + "\n" } }));
    let params = PatchParams::default();
    maps.patch("coredns", &params, &patch).await.unwrap();
    for index in 0..it.coredns.len() {
        it.restart_coredns(index, false).await;
    }
    let seen = "✗ Corefile: ConfigMap kube-system/coredns has no `dnstap` line";
    let silent = ("✗ dnstap streams: ", "see the lines about the Corefile");
    let text = finds(&it, 1, &[(seen, "egress corefile patch"), silent]).await;
    // Known addresses stay meanwhile.
    let (status, explained) = it.egress(&["explain", NAME]).await;
    assert!(
        status == Some(0) && explained.contains(ADDRESS),
        "{explained}"
    );

    follow(&it, cure(&text, seen)).await;
    let mended = maps.get("coredns").await.unwrap().data.unwrap()["Corefile"].clone();
    assert!(
        mended.contains("dnstap tcp://10.96.0.53:6000 full")
            && mended.contains("dnstap tcp://10.96.0.54:6000 full"),
        "{mended}"
    );
    for index in 0..it.coredns.len() {
        it.restart_coredns(index, true).await;
    }
    is_well(&it).await;

    eventually("a name is listed with its address", async || {
        let (status, text) = it.egress(&["list"]).await;
        let is_listed = status == Some(0) && text.contains(ADDRESS);
        is_listed.then_some(()).ok_or(text)
    })
    .await;
}

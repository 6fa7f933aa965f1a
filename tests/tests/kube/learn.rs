//! `egress learn` in a cluster: the names of a namespace's pods, through the API server and a port-forward.

use std::fs;

use hickory_proto::rr::RecordType;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use proto::api::EgressFirewall;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{or_skip, process::Process, programs::program, wait::eventually};

use crate::installation::{Installation, NAME, NODES};

/// A name that only the pod of the namespace asks for, and one that only a pod of another asks for.
const OWN: &str = "ns.example.com.";
const OF_OTHERS: &str = "of-others.example.com.";

/// Listens while the pods ask. Returns the exit status and the output.
async fn learn(it: &Installation, flags: &[&str]) -> (Option<i32>, String) {
    let args = [&["learn", "--namespace=team"], flags].concat();
    let environment = [("KUBECONFIG", it.server.kubeconfig().display().to_string())];
    let folder = it.folder();
    let mut process = Process::start(&folder, "learn", &program("egress"), args, &environment);
    eventually("it listens", async || {
        let log = process.log();
        log.contains("listening to").then_some(()).ok_or(log)
    })
    .await;
    let before = not_wanted(it).await;
    for (coredns, names) in it.coredns.iter().zip([[NAME, OWN], [OF_OTHERS, OF_OTHERS]]) {
        for name in names {
            coredns.ask(name, RecordType::A).await;
        }
    }
    eventually("the collectors have read the answers", async || {
        let now = not_wanted(it).await;
        let mut both = before.iter().zip(&now);
        let are_read = both.all(|(before, now)| *now >= before + 3.0);
        are_read
            .then_some(())
            .ok_or_else(|| format!("{before:?} {now:?}"))
    })
    .await;
    process.signal(Signal::INT);
    let status = process.wait().await.code();
    let log = process.log();
    let (_, output) = log.split_once('\n').unwrap();
    (status, output.to_owned())
}

/// The answers for names without a rule that each collector has read.
async fn not_wanted(it: &Installation) -> Vec<f64> {
    let mut read = Vec::new();
    for collector in &it.collectors {
        let admin = collector.program.admin();
        let outcome = ["outcome=\"not_wanted\""];
        let answers = admin.metric("egress_collector_events_total", &outcome);
        read.push(answers.await.unwrap());
    }
    read
}

/// A cluster with a pod in the namespace, and one in another.
async fn with_pods() -> Result<Installation, String> {
    let it = Installation::start().await?;
    it.server.make_namespace("others").await;
    // Each pod asks a CoreDNS of its own, which sees it by another address.
    let template = json!({ "spec": {
        "automountServiceAccountToken": false,
        "containers": [{ "name": "app", "image": "app" }],
    }});
    for (namespace, network) in ["team", "others"].into_iter().zip(&it.networks) {
        it.server.make_account(namespace, "default").await;
        let ip = network.outside().to_string();
        it.kubelet
            .run((namespace, "app"), NODES[0], &template, &ip)
            .await;
    }
    Ok(it)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_namespace_become_a_firewall_that_the_cluster_accepts() {
    let it = or_skip!(with_pods().await);
    let (status, text) = learn(&it, &[]).await;
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("pods of namespace team") && text.contains("ports"),
        "{text}"
    );
    assert!(
        text.contains("\"ns.example.com\"") && text.contains("\"www.example.com\""),
        "{text}"
    );
    assert!(!text.contains("of-others"), "{text}");
    let firewalls: Api<EgressFirewall> = Api::namespaced(it.server.client().await, "team");
    // The names stay without a rule.
    let params = PatchParams::apply("test").force().dry_run();
    let proposal: Value = serde_saphyr::from_str(&text).unwrap();
    let applied = firewalls
        .patch("default", &params, &Patch::Apply(&proposal))
        .await;
    assert_eq!(applied.unwrap().spec.egress.len(), 2, "{text}");

    // The namespace's rules deny nothing yet; those of the file do.
    let (status, text) = learn(&it, &["--against"]).await;
    assert_eq!(status, Some(0), "{text}");
    let rules = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall", "metadata": { "name": "default" },
        "spec": { "egress": [
            { "type": "Allow", "to": { "dnsName": NAME } },
            { "type": "Deny", "to": { "cidrSelector": "0.0.0.0/0" } },
        ]},
    });
    let file = it.folder().join("rules.json");
    fs::write(&file, rules.to_string()).unwrap();
    let (status, text) = learn(&it, &["--file", file.to_str().unwrap()]).await;
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("✗ ns.example.com, ") && text.contains("egress[1] denies it"),
        "{text}"
    );
}

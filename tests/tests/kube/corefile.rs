//! The Corefile in the cluster: changed as its page says, and watched by the leading collector.

use std::{path::Path, process::Stdio};

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::ConfigMap, events::v1::Event};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    admin::get_over_unix,
    kube::ApiServer,
    programs::{program, tool},
    wait::eventually,
    workdir::Workdir,
};
use tokio::process::Command;

use crate::collectors::{Collector, NEVER};

const COREFILE: &str = "\
.:53 {
    errors
    # keep this
    kubernetes cluster.local
    forward . /etc/resolv.conf
    cache 30
}
corp.example:53 {
    forward . 192.0.2.53
}
";

const ENDPOINT: &str = "tcp://10.96.0.53:6000";

async fn make(server: &ApiServer, namespace: &str) -> Api<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
    let map = serde_json::from_value(json!({
        "metadata": { "name": "coredns" },
        "data": { "Corefile": COREFILE },
    }));
    api.create(&PostParams::default(), &map.unwrap())
        .await
        .unwrap();
    api
}

async fn corefile(api: &Api<ConfigMap>) -> String {
    let map = api.get("coredns").await.unwrap();
    map.data.unwrap().remove("Corefile").unwrap()
}

/// Runs the README's command in a shell.
async fn pipe(kubeconfig: &Path, namespace: &str, patch: &str) {
    let (kubectl, egress) = (tool("kubectl"), program("egress"));
    let (kubectl, egress) = (kubectl.display(), egress.display());
    let script = format!(
        "set -o pipefail; {kubectl} -n {namespace} get cm coredns -o yaml | \
         {egress} corefile patch --configmap {patch} | {kubectl} apply -f -"
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_live_corefile_is_changed_by_kubectl_and_watched_by_the_leader() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let maps = make(&server, &namespace).await;
    let kubeconfig = server.kubeconfig();
    let workdir = Workdir::new();
    let inspect = workdir.join("inspect.sock");
    let flags = [
        "--corefile",
        &format!("{namespace}/coredns"),
        "--corefile-dnstap",
        ENDPOINT,
        "--inspect",
        &format!("unix://{}", inspect.display()),
    ];
    let flags: Vec<&str> = NEVER.iter().chain(&flags).copied().collect();
    let collector = Collector::start(&kubeconfig, &namespace, &flags).await;
    collector.expect_leading(true).await;
    let labels = [&*format!("config_map=\"{namespace}/coredns\"")];
    let faults = async |wanted: f64| {
        eventually(&format!("{wanted} faults are shown"), async || {
            let (_, text) = collector.program.admin().get("/metrics").await.unwrap();
            let shown = text.contains("egress_collector_corefile_faults{");
            let found = collector
                .metric("egress_collector_corefile_faults", &labels)
                .await;
            (shown && found == wanted)
                .then_some(())
                .ok_or(format!("{shown}: {found}"))
        })
        .await;
    };

    // Neither block streams.
    faults(2.0).await;
    pipe(&kubeconfig, &namespace, &format!("--dnstap {ENDPOINT}")).await;
    faults(0.0).await;
    let patched = corefile(&maps).await;
    let line = format!("    dnstap {ENDPOINT} full\n");
    assert_eq!(patched.replace(&line, ""), COREFILE);
    assert_eq!(patched.matches(&line).count(), 2);
    pipe(&kubeconfig, &namespace, &format!("--dnstap {ENDPOINT}")).await;
    assert_eq!(
        corefile(&maps).await,
        patched,
        "a second time changes nothing"
    );

    // An operator reverts one of them.
    let reverted = patched.replacen(&line, "", 1);
    let patch = Patch::Merge(json!({ "data": { "Corefile": reverted } }));
    let params = PatchParams::default();
    let reverted = maps.patch("coredns", &params, &patch).await.unwrap();
    faults(1.0).await;
    let events: Api<Event> = Api::namespaced(server.client().await, &namespace);
    eventually("an Event tells of it", async || {
        let found = events.list(&ListParams::default()).await.unwrap().items;
        let told = found.iter().any(|event| {
            let about = event
                .regarding
                .as_ref()
                .and_then(|about| about.uid.as_ref());
            event.reason.as_deref() == Some("AnswersNotSeen")
                && about == reverted.metadata.uid.as_ref()
                && event
                    .note
                    .as_ref()
                    .is_some_and(|note| note.starts_with("line 1: "))
        });
        told.then_some(()).ok_or_else(|| format!("{found:?}"))
    })
    .await;
    eventually("the status page shows it", async || {
        let (_, text) = get_over_unix(&inspect, "/status.json").await.unwrap();
        let status: Value = serde_json::from_str(&text).unwrap();
        let faults = &status["corefiles"][0]["findings"];
        (faults[0]["isFault"] == true && faults[0]["line"] == 1)
            .then_some(())
            .ok_or_else(|| status["corefiles"].to_string())
    })
    .await;
    let (_, page) = get_over_unix(&inspect, "/").await.unwrap();
    assert!(
        page.contains(&format!("Corefile {namespace}/coredns")),
        "{page}"
    );

    pipe(&kubeconfig, &namespace, "--remove").await;
    assert_eq!(corefile(&maps).await, COREFILE);
    faults(2.0).await;
    // An administrator who deletes it creates another one.
    maps.delete("coredns", &Default::default()).await.unwrap();
    eventually("nothing is said of what is not there", async || {
        let (_, text) = collector.program.admin().get("/metrics").await.unwrap();
        (!text.contains("egress_collector_corefile_faults{"))
            .then_some(())
            .ok_or(text)
    })
    .await;
}

const NODE_LOCAL: &str = "\
cluster.local:53 {
    bind 169.254.20.10 10.96.0.10
    forward . __PILLAR__CLUSTER__DNS__ {
        force_tcp
    }
}
.:53 {
    bind 169.254.20.10 10.96.0.10
    forward . __PILLAR__UPSTREAM__SERVERS__
}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_local_cache_that_bypasses_coredns_is_reported_once_it_runs() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let (maps, client) = (make(&server, &namespace).await, server.client().await);
    let patch = |corefile: &str| Patch::Merge(json!({ "data": { "Corefile": corefile } }));
    let params = PatchParams::default();
    maps.patch("coredns", &params, &patch(NODE_LOCAL))
        .await
        .unwrap();
    let workdir = Workdir::new();
    let inspect = workdir.join("inspect.sock");
    // Both have the same name.
    let flags = [
        "--corefile",
        "none",
        "--node-local",
        &format!("{namespace}/coredns"),
        "--inspect",
        &format!("unix://{}", inspect.display()),
    ];
    let flags: Vec<&str> = NEVER.iter().chain(&flags).copied().collect();
    let collector = Collector::start(&server.kubeconfig(), &namespace, &flags).await;
    collector.expect_leading(true).await;
    let shown = async |wanted: Option<&str>| {
        eventually(&format!("{wanted:?} is shown"), async || {
            let (_, text) = collector.program.admin().get("/metrics").await.unwrap();
            let series = text
                .lines()
                .find(|line| line.starts_with("egress_collector_corefile_faults{"));
            let found = series.and_then(|line| line.rsplit(' ').next());
            (found == wanted)
                .then_some(())
                .ok_or_else(|| format!("{found:?}"))
        })
        .await;
    };
    shown(None).await;

    let daemon_sets: Api<DaemonSet> = Api::namespaced(client, &namespace);
    let daemon_set = json!({
        "metadata": { "name": "coredns" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "node-cache", "image": "k8s-dns-node-cache" }] },
            },
        },
    });
    let daemon_set = serde_json::from_value(daemon_set).unwrap();
    daemon_sets
        .create(&PostParams::default(), &daemon_set)
        .await
        .unwrap();
    shown(Some("1")).await;
    let (_, page) = get_over_unix(&inspect, "/").await.unwrap();
    assert!(page.contains("past the cluster"), "{page}");
    pipe(&server.kubeconfig(), &namespace, "--node-local").await;
    shown(Some("0")).await;
    daemon_sets
        .delete("coredns", &Default::default())
        .await
        .unwrap();
    shown(None).await;
}

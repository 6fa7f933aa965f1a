//! `helm test` runs a check with an account that has no more rights than that needs.

use std::{collections::BTreeMap, fs};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{DynamicObject, LogParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tests::{
    chart::{self, RELEASE},
    node::Ports,
    or_skip,
    wait::eventually,
    workdir::Workdir,
};
use tokio::task::spawn_blocking;

use crate::{
    installation::{DNS_NAMESPACE, Installation, NAMESPACE, NODES, VALUES},
    rbac::allowed,
};

/// The pod of the test, and its account.
pub(super) const CHECK: &str = "egress-by-name-check";

/// Runs helm in the namespace of the chart. Returns whether it succeeded, and its output.
async fn helm(it: &Installation, args: &[&str]) -> (bool, String) {
    let kubeconfig = it.server.kubeconfig().display().to_string();
    let of = ["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE];
    let args = args.iter().chain(&of);
    let args: Vec<String> = args.map(|it| (*it).to_owned()).collect();
    let run = move || chart::helm(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let output = spawn_blocking(run).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Runs the pod of the test when helm has made it, as scheduler and kubelet do.
async fn run_pod(it: &Installation, client: &Client, folder: &Workdir) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = eventually("helm has made the pod", async || {
        let pod = pods.get(CHECK).await.map_err(|error| error.to_string())?;
        let is_new = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_none());
        is_new
            .then_some(pod)
            .ok_or_else(|| "it is the one before".to_owned())
    })
    .await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": CHECK },
        "target": { "apiVersion": "v1", "kind": "Node", "name": NODES[0] },
    });
    let post = PostParams::default();
    let bound: serde_json::Value = pods
        .create_subresource("binding", CHECK, &post, &binding)
        .await
        .unwrap();
    assert_eq!(bound["status"], "Success", "{bound}");
    it.server.config_of(NAMESPACE, CHECK).await;
    let kubeconfig = it.server.folder().join(format!("{CHECK}.kubeconfig"));
    let command = pod.spec.unwrap().containers.remove(0).command.unwrap();
    let args: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_eq!(args[0], "egress");
    let (status, text) = it.egress_as(&kubeconfig, &args[1..]).await;
    let log = folder.join("check.log");
    fs::write(&log, text).unwrap();
    let ports = Ports {
        ports: BTreeMap::new(),
        logs: BTreeMap::from([("check".to_owned(), log)]),
    };
    it.kubelet.connect((NAMESPACE, CHECK), &ports);
    let phase = match status {
        Some(0) => "Succeeded",
        _ => "Failed",
    };
    let ended = json!({ "terminated": { "exitCode": status, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z" } });
    let container = json!({
        "name": "check", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": ended,
    });
    let status = json!({ "phase": phase, "containerStatuses": [container] });
    it.kubelet.set_status((NAMESPACE, CHECK), status).await;
}

/// Runs `helm test`. Returns whether it passed, and the log of its pod.
async fn helm_test(it: &Installation, client: &Client, folder: &Workdir) -> (bool, String) {
    // `--logs` also wants the logs of hooks that are no pods.
    let test = ["test", RELEASE, "--hide-notes", "--timeout", "2m"];
    let ((passed, text), ()) = tokio::join!(helm(it, &test), run_pod(it, client, folder));
    println!("{text}");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let log = pods.logs(CHECK, &LogParams::default()).await.unwrap();
    println!("{log}");
    (passed, log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_test_checks_the_chain_with_no_more_rights_than_it_needs() {
    let it = or_skip!(Installation::start().await);
    super::is_well(&it).await;
    let client = it.server.client().await;
    let (folder, chart) = (Workdir::new(), chart::folder());
    let chart = chart.to_str().unwrap();
    // The release takes over the objects that the installation has made of the chart.
    let install = ["install", RELEASE, chart, "--take-ownership"];
    let without = [
        "--set",
        "crds.dnsNameResolvers=false,crds.egressFirewalls=false",
    ];
    let (installed, text) = helm(&it, &[&install[..], &VALUES, &without].concat()).await;
    assert!(installed, "{text}");

    let (passed, text) = helm_test(&it, &client, &folder).await;
    assert!(passed && text.contains("All is well."), "{text}");
    assert!(
        text.contains("✓ CoreDNS: 2 pods are ready, version 1.14.7"),
        "{text}"
    );

    let rendered = chart::objects(&chart::template_of_tests(NAMESPACE, &VALUES));
    uses_its_rights(&it, &rendered);

    // The second run replaces the first, and tells a fault.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let patch = Patch::Merge(json!({ "data": { "Corefile": ". {\n}\n" } }));
    maps.patch("coredns", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let (passed, text) = helm_test(&it, &client, &folder).await;
    let seen = "✗ Corefile: ConfigMap kube-system/coredns has no `dnstap` line";
    assert!(!passed && text.contains(seen), "{text}");
}

/// The account of `helm test` asked for all that its rights allow, and for no more.
pub(super) fn uses_its_rights(it: &Installation, rendered: &[DynamicObject]) {
    let mut granted = allowed(rendered, CHECK);
    let user = format!("system:serviceaccount:{NAMESPACE}:{CHECK}");
    let mut asked = it.server.asked_by(&user);
    // Kubernetes asks for one of these rights or for both, by its version.
    for verb in ["get", "create"] {
        let forward = (verb.to_owned(), "pods/portforward".to_owned());
        assert!(granted.remove(&forward), "{granted:?}");
        asked.remove(&forward);
    }
    assert_eq!(asked, granted);
}

//! `egress test` on a real API server: this test plays ovn-kubernetes and the kubelet, and the pod's packets pass OVN.

use std::{fs, net::SocketAddr};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use proto::api::EgressFirewall;
use serde::de::DeserializeOwned;
use serde_json::json;
use tests::{datapath::pod_addresses, kube::ApiServer, or_skip, programs, wait::eventually};
use tokio::process::Command;

use super::datapath_fixture::{DNS, DatapathFixture};

const ZONE: &str = "www IN A 192.0.2.10\nother IN A 192.0.2.99\n";

const NAMES: [&str; 2] = ["www.example.com.", "*.w.example.com."];

/// The object of the test's namespace, once it is there.
async fn object<K>(client: &Client) -> K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let all: Api<K> = Api::all(client.clone());
    eventually("an object of the test", async || {
        let found = all.list(&ListParams::default()).await;
        let found = found.map_err(|error| error.to_string())?.items;
        let mut found = found.into_iter().filter(|it| {
            let namespace = it.meta().namespace.as_deref();
            namespace.is_some_and(|it| it.starts_with("egress-test-"))
        });
        found.next().ok_or_else(|| "none".to_owned())
    })
    .await
}

async fn set_status<K>(api: &Api<K>, name: &str, status: serde_json::Value)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"status": status}));
    let params = PatchParams::default();
    api.patch_status(name, &params, &patch).await.unwrap();
}

/// Runs the pod's container in the network of the fixture's pod, and returns its last words.
async fn run_container(town: &DatapathFixture, pod: &Pod) -> String {
    let container = pod.spec.as_ref().unwrap().containers[0].clone();
    let command = container.command.unwrap();
    let words = town.workdir.join("last-words");
    let words = words.display().to_string();
    let args = command[1..].iter().map(|it| {
        let is_file = it.starts_with("--file=");
        if is_file {
            format!("--file={words}")
        } else {
            it.clone()
        }
    });
    let [dns, _] = pod_addresses(DNS);
    let dns = SocketAddr::from((dns, town.coredns.address().port()));
    let args: Vec<String> = args.collect();
    let (folder, place) = (town.workdir.path().to_owned(), town.pod);
    let run = move || place.run(dns, &folder, &programs::program("egress"), &args);
    tokio::task::spawn_blocking(run).await.unwrap();
    fs::read_to_string(words).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connectivity_test_reaches_what_is_allowed_and_leaves_nothing() {
    let town = or_skip!(DatapathFixture::start(ZONE, &NAMES, &["--flush-probe=10ms"]).await);
    let server = ApiServer::start().await;
    let client = server.client().await;
    let mut command = Command::new(programs::program("egress"));
    command.args(["test", "--image=egress", "--allowed=www.example.com"]);
    command.args([
        "--under-wildcard=f3-7.w.example.com",
        "--denied=other.example.com:443",
    ]);
    command.arg("--kubeconfig").arg(server.kubeconfig());
    let testing = tokio::spawn(async move { command.output().await.unwrap() });

    let firewall: EgressFirewall = object(&client).await;
    let namespace = firewall.namespace().unwrap();
    let rules = firewall.spec.egress.iter().map(|it| it.to.clone());
    let names: Vec<_> = rules.clone().filter_map(|it| it.dns_name).collect();
    assert_eq!(names, ["www.example.com", "*.w.example.com"]);
    let denied: Vec<_> = rules.filter_map(|it| it.cidr_selector).collect();
    assert_eq!(denied, ["0.0.0.0/0", "::/0"]);
    server.make_account(&namespace, "default").await;
    let firewalls: Api<EgressFirewall> = Api::namespaced(client.clone(), &namespace);
    let applied = json!({"status": "EgressFirewall Rules applied"});
    set_status(&firewalls, "default", applied).await;

    let pod: Pod = object(&client).await;
    let message = run_container(&town, &pod).await;
    let container = json!({
        "name": "connect", "image": "egress", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "message": message}},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let ended = json!({"phase": "Succeeded", "containerStatuses": [container]});
    set_status(&pods, &pod.name_any(), ended).await;

    let output = testing.await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "✓ Allowed name: www.example.com:443 was reached by the first packet: 192.0.2.10 in ",
        "✓ Name under a wildcard: f3-7.w.example.com:443 was reached by ",
        "✓ Denied name: other.example.com:443 was not reached: 192.0.2.99: no answer in 5 s",
        "All is well.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Without the controllers of a cluster a namespace stays until it is finalized.
    let namespaces: Api<Namespace> = Api::all(client);
    let left = namespaces.get_opt(&namespace).await.unwrap();
    assert!(left.is_none_or(|it| it.metadata.deletion_timestamp.is_some()));
}

//! The limits of a namespace, from annotations of its Namespace.

use k8s_openapi::api::{core::v1::Namespace, events::v1::Event};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tests::{admin::get_over_unix, kube::ApiServer, wait::eventually, workdir::Workdir};

use crate::collectors::{Collector, Objects, allow};

/// In the order of the rules: the last name is left out first.
const NAMES: [&str; 2] = ["first.example.com.", "last.example.com."];

const ADDRESSES: [[&str; 3]; 2] = [
    ["198.51.100.1", "198.51.100.2", "198.51.100.3"],
    ["203.0.113.1", "203.0.113.2", "203.0.113.3"],
];

/// Longer than the test.
const TTL: u32 = 3600;

struct Team {
    name: String,
    namespaces: Api<Namespace>,
    events: Api<Event>,
    objects: Objects,
}

impl Team {
    async fn annotate(&self, max_addresses: Value) {
        let key = "dnsnameresolver.network.openshift.io/max-addresses";
        let patch = json!({ "metadata": { "annotations": { key: max_addresses } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.namespaces.patch(&self.name, &params, &patch).await;
        patched.unwrap();
    }

    async fn expect_all(&self) {
        for (name, addresses) in NAMES.iter().zip(&ADDRESSES) {
            self.objects.expect(name, addresses).await;
        }
    }

    async fn expect_last_left_out(&self) {
        self.objects.expect(NAMES[0], &ADDRESSES[0]).await;
        eventually("the last name is left out", async || {
            let found = self.objects.named(NAMES[1]).await?;
            let statuses = found.iter().filter_map(|object| object.status.as_ref());
            let entries = statuses.flat_map(|status| &status.resolved_names);
            let mut conditions = entries.flat_map(|entry| &entry.conditions);
            let is_left_out = conditions.any(|it| it.reason == "LimitExceeded");
            is_left_out
                .then_some(())
                .ok_or_else(|| format!("{found:?}"))
        })
        .await;
    }

    /// Waits for an Event about the Namespace.
    async fn expect_told(&self, reason: &str, words: &str) {
        eventually(&format!("{reason} is told"), async || {
            let found = self.events.list(&ListParams::default()).await;
            let found = found.map_err(|error| error.to_string())?.items;
            let is_told = found.iter().any(|event| {
                let about = event.regarding.clone().unwrap_or_default();
                event.reason.as_deref() == Some(reason)
                    && about.kind.as_deref() == Some("Namespace")
                    && about.name.as_deref() == Some(&self.name)
                    && event.note.as_ref().is_some_and(|it| it.contains(words))
            });
            is_told.then_some(()).ok_or_else(|| format!("{found:?}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_of_a_namespace_set_its_limits() {
    let (workdir, server) = (Workdir::new(), ApiServer::shared().await);
    let (namespace, name) = (server.namespace().await, server.namespace().await);
    let client = server.client().await;
    let inspect = workdir.join("inspect.sock");
    let flags = [
        "--manage-objects",
        "always",
        "--max-addresses-per-namespace",
        "4",
        "--max-addresses-by-annotation",
        "8",
        "--inspect",
        &format!("unix://{}", inspect.display()),
    ];
    let collector = Collector::start(&server.kubeconfig(), &namespace, &flags).await;
    for (name, addresses) in NAMES.iter().zip(&ADDRESSES) {
        collector.nameserver.set(name, addresses, TTL);
    }
    allow(&server, &name, &NAMES).await;
    let team = Team {
        namespaces: Api::all(client.clone()),
        events: Api::namespaced(client, &name),
        objects: Objects::of(&server, &namespace).await,
        name,
    };
    team.expect_last_left_out().await;
    let (_, text) = get_over_unix(&inspect, "/status.json").await.unwrap();
    let status: Value = serde_json::from_str(&text).unwrap();
    let over = status["namespacesOverLimit"].as_array().unwrap();
    let over = over.iter().find(|it| it["namespace"] == *team.name);
    assert_eq!(over.unwrap()["quota"]["addresses"], 4, "{over:?}");

    team.annotate(json!("7")).await;
    team.expect_all().await;
    team.annotate(json!("100")).await;
    team.expect_told("AnnotationClamped", "counts as 8").await;
    team.expect_all().await;
    team.annotate(json!("many")).await;
    team.expect_told("AnnotationIgnored", "4 applies").await;
    team.expect_last_left_out().await;
    team.annotate(json!("8")).await;
    team.expect_all().await;
    team.annotate(Value::Null).await;
    team.expect_last_left_out().await;
}

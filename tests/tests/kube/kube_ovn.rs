//! kube-OVN's DNSNameResolvers.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use proto::api::{KubeOvnDnsNameResolver, POLICY_LABEL};
use serde_json::json;
use tests::{
    chart::{self, COLLECTOR, kind_of},
    kube::ApiServer,
    wait::eventually,
};

use crate::collectors::Collector;

const NAMESPACE: &str = "egress-by-name";

const NAME: &str = "www.example.com.";

/// With the chart's values for kube-OVN, as its ServiceAccount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_for_kube_ovn_gives_the_rights_and_guards_the_statuses() {
    let server = ApiServer::start().await;
    server.install_kube_ovn().await;
    server.make_namespace(NAMESPACE).await;
    let objects: Api<KubeOvnDnsNameResolver> = Api::all(server.client().await);
    let values = chart::folder().join("ci/kube-ovn-values.yaml");
    for object in chart::render(NAMESPACE, &["--values", &values.to_string_lossy()]) {
        let is_account = kind_of(&object) == "ServiceAccount";
        let version = &object.types.as_ref().unwrap().api_version;
        let is_right = ["rbac.", "admissionregistration."]
            .iter()
            .any(|it| version.starts_with(it));
        if is_account || is_right {
            server.make(&object).await;
        }
    }
    server.config_of(NAMESPACE, COLLECTOR).await;
    let kubeconfig = server.folder().join(format!("{COLLECTOR}.kubeconfig"));
    // As kube-ovn-controller does.
    let object = json!({
        "apiVersion": "kubeovn.io/v1",
        "kind": "DNSNameResolver",
        "metadata": { "name": "anp-web", "labels": { POLICY_LABEL: "web" } },
        "spec": { "name": NAME },
    });
    let object = serde_json::from_value(object).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let rules = ["--rules", "kubeovn"];
    let mut collector = Collector::start(&kubeconfig, NAMESPACE, &rules).await;
    collector.hears(NAME, &[[192, 0, 2, 1].into()], 3600).await;
    eventually("the address in the status", async || {
        let object = objects.get("anp-web").await;
        let object = object.map_err(|error| error.to_string())?;
        let status = object.status.ok_or("no status")?;
        let names = status.resolved_names.iter();
        let addresses = names.flat_map(|name| &name.resolved_addresses);
        let is_right = addresses.map(|it| it.ip.as_str()).eq(["192.0.2.1"]);
        is_right.then_some(()).ok_or_else(|| format!("{status:?}"))
    })
    .await;
    collector.expect_leading(true).await;
    let user = format!("system:serviceaccount:{NAMESPACE}:{COLLECTOR}");
    let asked = server.asked_by(&user);
    for (verb, resource) in [
        ("list", "dnsnameresolvers"),
        ("watch", "dnsnameresolvers"),
        ("update", "dnsnameresolvers/status"),
        ("create", "leases"),
    ] {
        assert!(
            asked.contains(&(verb.to_owned(), resource.to_owned())),
            "{asked:?}"
        );
    }
    let kinds: BTreeSet<&str> = asked.iter().map(|(_, resource)| &**resource).collect();
    assert!(!kinds.contains("egressfirewalls"), "{kinds:?}");

    // Events go to the object, in no namespace.
    collector.hears(NAME, &[[127, 0, 0, 1].into()], 3600).await;
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    eventually("an Event", async || {
        let all = events.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let found = all.iter().any(|event| {
            let about = event.regarding.as_ref().and_then(|it| it.kind.as_deref());
            event.reason.as_deref() == Some("AddressRefused")
                && event
                    .note
                    .as_ref()
                    .is_some_and(|note| note.contains("loopback"))
                && about == Some("DNSNameResolver")
        });
        found.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;

    // An administrator may not write a status, whatever the roles allow.
    let refused = eventually("the policy is in force", async || {
        let object = objects.get("anp-web").await;
        let object = object.map_err(|error| error.to_string())?;
        let params = PostParams::default();
        match objects.replace_status("anp-web", &params, &object).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(refused.contains(&user), "{refused}");
}

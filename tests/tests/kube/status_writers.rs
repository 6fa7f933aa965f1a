//! The admission policy of the chart: only the accounts that it names write statuses, which open the firewall.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use proto::api::DnsNameResolver;
use serde_json::{Value, json};
use tests::{
    chart::{self, COLLECTOR, kind_of},
    kube::ApiServer,
    wait::eventually,
};

const NAMESPACE: &str = "egress-by-name";

const OBJECTS: &str = "openshift-ovn-kubernetes";

fn status(address: &str) -> Value {
    json!({"resolvedNames": [{
        "dnsName": "www.example.com.",
        "resolvedAddresses": [{"ip": address, "ttlSeconds": 5, "lastLookupTime": "2026-01-01T00:00:00Z"}],
    }]})
}

/// Only these accounts, as (namespace, name), write statuses in the namespace: an administrator does not.
pub(crate) async fn guards_the_statuses(
    server: &ApiServer,
    namespace: &str,
    writers: &[(&str, &str)],
) {
    let objects: Api<DnsNameResolver> = Api::namespaced(server.client().await, namespace);
    let object = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {"name": "www"},
        "spec": {"name": "www.example.com."},
    });
    let object: DnsNameResolver = serde_json::from_value(object).unwrap();
    let made = objects.create(&PostParams::default(), &object).await;
    made.unwrap();
    let patch = Patch::Merge(json!({"status": status("192.0.2.66")}));
    let refused = eventually("the policy is in force", async || {
        let params = PatchParams::default();
        match objects.patch_status("www", &params, &patch).await {
            Err(kube::Error::Api(status)) => Ok(status),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(refused.code, 403);
    for (number, (home, name)) in writers.iter().enumerate() {
        let account = format!("system:serviceaccount:{home}:{name}");
        assert!(refused.message.contains(&account), "{}", refused.message);
        // Their role and the policy allow their update.
        let address = format!("192.0.2.{number}");
        write(server, namespace, (home, name), &address)
            .await
            .unwrap();
        let stored = objects.get("www").await.unwrap().status.unwrap();
        let resolved = &stored.resolved_names[0].resolved_addresses;
        assert_eq!(resolved[0].ip, address);
    }
}

/// Reads the object and updates its status, as this account.
async fn write(
    server: &ApiServer,
    namespace: &str,
    (home, name): (&str, &str),
    address: &str,
) -> kube::Result<DnsNameResolver> {
    let config = server.config_of(home, name).await;
    let client = Client::try_from(config).unwrap();
    let objects: Api<DnsNameResolver> = Api::namespaced(client, namespace);
    let mut object = objects.get("www").await?;
    object.status = Some(serde_json::from_value(status(address)).unwrap());
    let params = PostParams::default();
    objects.replace_status("www", &params, &object).await
}

/// An account with the rights that OpenShift gives its DNS operator and the plugin of its CoreDNS.
async fn give_rights(server: &ApiServer, (home, name): (&str, &str)) {
    let params = PostParams::default();
    server.make_account(home, name).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(server.client().await);
    let binding = json!({
        "metadata": {"name": format!("{home}-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dns"},
        "subjects": [{"kind": "ServiceAccount", "namespace": home, "name": name}],
    });
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&params, &binding).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openshifts_dns_operator_and_its_plugin_write_statuses_beside_us() {
    let server = ApiServer::start().await;
    for namespace in [
        NAMESPACE,
        OBJECTS,
        "openshift-dns",
        "openshift-dns-operator",
    ] {
        server.make_namespace(namespace).await;
    }
    let values = chart::folder().join("ci/openshift-values.yaml");
    for object in chart::render(NAMESPACE, &["--values", &values.to_string_lossy()]) {
        let is_account = kind_of(&object) == "ServiceAccount";
        let types = object.types.as_ref().unwrap();
        let mut groups = [
            "rbac.authorization.k8s.io/",
            "admissionregistration.k8s.io/",
        ]
        .iter();
        if is_account || groups.any(|group| types.api_version.starts_with(group)) {
            server.make(&object).await;
        }
    }
    let roles: Api<ClusterRole> = Api::all(server.client().await);
    let role = json!({
        "metadata": {"name": "dns"},
        "rules": [
            {"apiGroups": ["network.openshift.io"], "resources": ["dnsnameresolvers"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["network.openshift.io"], "resources": ["dnsnameresolvers/status"], "verbs": ["get", "update", "patch"]},
        ],
    });
    let role = serde_json::from_value(role).unwrap();
    roles.create(&PostParams::default(), &role).await.unwrap();
    let (plugin, operator) = (
        ("openshift-dns", "dns"),
        ("openshift-dns-operator", "dns-operator"),
    );
    let stranger = (OBJECTS, "stranger");
    for account in [plugin, operator, stranger] {
        give_rights(&server, account).await;
    }

    let writers = [(NAMESPACE, COLLECTOR), plugin, operator];
    guards_the_statuses(&server, OBJECTS, &writers).await;
    let refused = write(&server, OBJECTS, stranger, "192.0.2.66").await;
    let Err(kube::Error::Api(refused)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.code, 403);
}

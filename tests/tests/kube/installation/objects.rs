//! Objects that tests of an installation make themselves.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// A pod of ovn-kubernetes' Helm chart, as far as it shows its flag.
pub(crate) fn ovnkube(has_flag: bool) -> Value {
    json!({
        "metadata": { "labels": { "app": "ovnkube-node" } },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "ovnkube-controller",
                "image": "ghcr.io/ovn-kubernetes/ovn-kubernetes/ovn-kube-ubuntu:release-1.3",
                "env": [{ "name": "OVN_ENABLE_DNSNAMERESOLVER", "value": has_flag.to_string() }],
            }],
        },
    })
}

/// Sets the level of Pod Security that a namespace enforces.
pub(crate) async fn label(client: &Client, namespace: &str, level: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = json!({ "pod-security.kubernetes.io/enforce": level });
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    let params = PatchParams::default();
    namespaces.patch(namespace, &params, &patch).await.unwrap();
}

//! Definitions of DNSNameResolver other than the chart's.

use std::{fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use proto::api::DnsNameResolver;
use serde_json::{Value, json};

use super::ApiServer;
use crate::wait::eventually;

/// OpenShift's definition of DNSNameResolver: its lists are list-maps.
///
/// # Panics
/// If the fixture cannot be read.
pub fn openshift_resolvers() -> CustomResourceDefinition {
    let file = "fixtures/openshift/dnsnameresolvers.crd.yaml";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    serde_saphyr::from_str(&text.expect("the definition")).expect("a definition")
}

impl ApiServer {
    /// Adds a definition. Returns when its objects are served.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn define(&self, definition: &CustomResourceDefinition) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client().await);
        let made = definitions.create(&PostParams::default(), definition).await;
        made.expect("a definition");
        self.serves_crds().await;
    }

    /// Replaces the definition of DNSNameResolver. The objects stay. Returns when the server uses the new one.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn redefine_resolvers(&self, definition: CustomResourceDefinition) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client().await);
        let name = definition.name_any();
        let old = definitions.get(&name).await.expect("the old definition");
        let mut new = definition;
        new.metadata.resource_version = old.metadata.resource_version;
        let params = PostParams::default();
        let replaced = definitions.replace(&name, &params, &new).await;
        replaced.expect("another definition");
        let text = serde_json::to_string(&new).expect("JSON");
        let has_maps = text.contains("x-kubernetes-list-map-keys");
        let namespace = self.namespace().await;
        eventually("the server uses the definition", async || {
            let found = self.lists_names_in_managed_fields(&namespace).await;
            (found == has_maps)
                .then_some(())
                .ok_or_else(|| format!("list-maps: {found}"))
        })
        .await;
    }

    /// Whether `managedFields` of a new object have an entry for each name.
    async fn lists_names_in_managed_fields(&self, namespace: &str) -> bool {
        let objects: Api<DnsNameResolver> = Api::namespaced(self.client().await, namespace);
        let object = |status: Value| {
            let object = json!({
                "apiVersion": "network.openshift.io/v1alpha1",
                "kind": "DNSNameResolver",
                "metadata": { "name": "which-definition" },
                "spec": { "name": "*.example.com." },
                "status": status,
            });
            serde_json::from_value::<DnsNameResolver>(object).expect("an object")
        };
        let params = PostParams::default();
        let made = objects.create(&params, &object(json!({}))).await;
        let mut with_name = object(json!({
            "resolvedNames": [{ "dnsName": "a.example.com.", "resolvedAddresses": [] }],
        }));
        with_name.metadata.resource_version = made.expect("an object").resource_version();
        let written = objects
            .replace_status("which-definition", &params, &with_name)
            .await
            .expect("a status");
        let params = DeleteParams::default();
        let deleted = objects.delete("which-definition", &params).await;
        deleted.expect("it is deleted");
        let managed = serde_json::to_string(&written.metadata.managed_fields).expect("JSON");
        managed.contains("a.example.com.")
    }
}

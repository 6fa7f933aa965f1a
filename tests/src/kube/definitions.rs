//! The CRDs of the server.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::json;
use tokio::time::timeout;

use super::{ApiServer, deploy};
use crate::wait::eventually;

/// A look at the CRDs that takes longer begins anew: kube-apiserver once did not answer the first list of a new kind, while
/// it served other requests.
const LOOK: Duration = Duration::from_secs(10);

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

    /// Replaces the CRD of one of our kinds, by its plural, with one without validation. The server uses it a moment
    /// later.
    pub async fn take_any(&self, plural: &str) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client().await);
        let all = definitions.list(&ListParams::default()).await;
        let all = all.expect("the CRDs").items;
        let ours = all.into_iter().find(|crd| crd.spec.names.plural == plural);
        let name = ours.expect("the CRD").name_any();
        let anything = json!([{
            "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema",
            "value": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        }]);
        let anything = serde_json::from_value(anything).expect("a patch");
        let anything: Patch<()> = Patch::Json(anything);
        let params = PatchParams::default();
        let patched = definitions.patch(&name, &params, &anything).await;
        patched.expect("another CRD");
    }

    /// Installs the CRD of ClusterUserDefinedNetworks, as ovn-kubernetes does.
    pub async fn install_user_defined_networks(&self) {
        let file = "tests/kube/cluster-user-defined-networks.yaml";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        self.create(&file).await;
        self.serves_crds().await;
    }

    /// Installs kube-OVN's CRD of DNSNameResolvers, as its chart does.
    pub async fn install_kube_ovn(&self) {
        let file = "tests/kube/kube-ovn-dns-name-resolver.yaml";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        self.create(&file).await;
        self.serves_crds().await;
    }

    pub(super) async fn install_crds(&self) {
        for entry in fs::read_dir(deploy("chart/files/crds")).expect("the CRDs") {
            self.create(&entry.expect("a CRD").path()).await;
        }
        self.serves_crds().await;
    }

    /// Waits until it serves all CRDs.
    async fn serves_crds(&self) {
        eventually("the CRDs are served", async || {
            let look = timeout(LOOK, self.lists_all()).await;
            look.unwrap_or_else(|_| Err(format!("a list is not answered within {LOOK:?}")))
        })
        .await;
    }

    /// Lists the objects of each CRD.
    async fn lists_all(&self) -> Result<(), String> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client().await);
        let all = definitions.list(&ListParams::default()).await;
        for definition in all.map_err(|error| error.to_string())? {
            let conditions = definition.status.and_then(|status| status.conditions);
            let is_served = conditions
                .into_iter()
                .flatten()
                .any(|condition| condition.type_ == "Established" && condition.status == "True");
            if !is_served {
                return Err(format!("{:?} is not", definition.metadata.name));
            }
            let resource = ApiResource {
                group: definition.spec.group.clone(),
                version: definition.spec.versions[0].name.clone(),
                api_version: format!(
                    "{}/{}",
                    definition.spec.group, definition.spec.versions[0].name
                ),
                kind: definition.spec.names.kind.clone(),
                plural: definition.spec.names.plural.clone(),
            };
            let objects: Api<DynamicObject> = Api::all_with(self.client().await, &resource);
            let listed = objects.list(&ListParams::default()).await;
            listed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

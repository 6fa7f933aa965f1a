//! Definitions of DNSNameResolver other than the chart's.

use std::{fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::PostParams};

use super::ApiServer;

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
}

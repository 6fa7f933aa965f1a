//! The sources of names in a cluster: the definition of a kind goes and comes back.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use proto::api::DnsResolver;
use serde_json::json;
use tests::{kube::ApiServer, wait::eventually};

use crate::collectors::{Collector, Objects};

const NAMESPACE: &str = "ovn-kubernetes";

const RESOLVERS: &str = "egress-by-name";

const BOTH: [&str; 2] = ["--rules", "egressfirewall,dnsresolver"];

const DEFINITION: &str = "dnsresolvers.dns.k8s.delta10.nl";

fn resolver(names: &[&str]) -> DnsResolver {
    let resolver = json!({
        "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
        "kind": "DNSResolver",
        "metadata": { "name": "whitelist" },
        "spec": { "domainList": names },
    });
    serde_json::from_value(resolver).unwrap()
}

async fn cluster() -> (ApiServer, Objects) {
    let server = ApiServer::start().await;
    for namespace in [NAMESPACE, RESOLVERS] {
        server.make_namespace(namespace).await;
    }
    let of_resolvers = Objects::of(&server, RESOLVERS).await;
    (server, of_resolvers)
}

/// Deletes the definition of DNSResolver, and with it all DNSResolvers.
async fn take_definition(server: &ApiServer) -> CustomResourceDefinition {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client().await);
    let definition = definitions.get(DEFINITION).await.unwrap();
    let deletion = DeleteParams::default();
    definitions.delete(DEFINITION, &deletion).await.unwrap();
    eventually("the definition is gone", async || {
        let found = definitions.get_opt(DEFINITION).await;
        match found.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(found) => Err(format!("{:?}", found.metadata.deletion_timestamp)),
        }
    })
    .await;
    definition
}

async fn bring_back(server: &ApiServer, mut definition: CustomResourceDefinition) {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client().await);
    definition.metadata.resource_version = None;
    definition.metadata.uid = None;
    definition.metadata.managed_fields = None;
    definition.status = None;
    let params = PatchParams::apply("test").force();
    let patch = Patch::Apply(&definition);
    let made = definitions.patch(DEFINITION, &params, &patch).await;
    made.unwrap();
}

async fn names_the_definition(collector: &Collector) {
    eventually("/readyz names the definition", async || {
        let (code, text) = collector.program.admin().get("/readyz").await.unwrap();
        let is_named = code == 200 && text.contains(DEFINITION);
        is_named.then_some(()).ok_or(text)
    })
    .await;
}

/// Kubernetes deletes the DNSResolvers with their definition. That may be an accident.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_stay_in_use_while_a_definition_is_away() {
    let (server, of_resolvers) = cluster().await;
    let mut collector = Collector::start(&server.kubeconfig(), NAMESPACE, &BOTH).await;
    let namespace = server.namespace().await;
    let resolvers: Api<DnsResolver> = Api::namespaced(server.client().await, &namespace);
    let made = resolver(&["www.example.com"]);
    let params = PostParams::default();
    resolvers.create(&params, &made).await.unwrap();
    let addresses = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
    let name = "www.example.com.";
    collector.hears(name, &addresses[..1], 3600).await;
    of_resolvers.expect(name, &["192.0.2.1"]).await;

    let definition = take_definition(&server).await;
    names_the_definition(&collector).await;
    collector.hears(name, &addresses, 3600).await;
    of_resolvers.expect(name, &["192.0.2.1", "192.0.2.2"]).await;

    bring_back(&server, definition).await;
    eventually("the DNSResolver is made again", async || {
        let made = resolvers.create(&params, &made).await;
        made.map(drop).map_err(|error| error.to_string())
    })
    .await;
    eventually("the definition is read again", async || {
        let (_, text) = collector.program.admin().get("/readyz").await.unwrap();
        (!text.contains(DEFINITION)).then_some(()).ok_or(text)
    })
    .await;
    of_resolvers.expect(name, &["192.0.2.1", "192.0.2.2"]).await;
}

//! The DNS servers behind a Service.

use collector::cluster::endpoints::Discovery;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::store::ObjectKey;
use serde_json::{Value, json};
use tests::{kube::ApiServer, wait::PATIENCE};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::cluster::admin;

fn slice(name: &str, service: &str, endpoints: &Value) -> EndpointSlice {
    let slice = json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [
            { "name": "dns", "port": 53, "protocol": "UDP" },
            { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
        ],
    });
    serde_json::from_value(slice).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_come_and_go_are_found() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let slices: Api<EndpointSlice> = Api::namespaced(server.client().await, &namespace);
    let make = async |slice| slices.create(&PostParams::default(), &slice).await.unwrap();
    let ready = json!([{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }]);
    make(slice("a", "kube-dns", &ready)).await;
    make(slice(
        "other",
        "metrics",
        &json!([{ "addresses": ["10.0.0.9"] }]),
    ))
    .await;

    // A missing Service does no harm.
    let services = [
        format!("{namespace}/kube-dns"),
        "openshift-dns/dns-default".to_owned(),
    ];
    let services: Vec<ObjectKey> = services.iter().map(|name| name.parse().unwrap()).collect();
    let discovery = Discovery::new(&admin(&server).await, &services);
    let (mut found, token) = (discovery.found(), CancellationToken::new());
    let task = tokio::spawn(discovery.run(token.clone()));
    let mut expect = async |expected: &[(&str, bool, bool)]| {
        let is_expected = |found: &Option<collector::cluster::endpoints::Endpoints>| {
            let found = found.iter().flat_map(|found| found.iter());
            let found: Vec<_> = found
                .map(|(address, c)| (address.to_string(), c.ready, c.terminating))
                .collect();
            let expected = expected.iter().map(|(a, b, c)| ((*a).to_owned(), *b, *c));
            found == expected.collect::<Vec<_>>()
        };
        let seen = timeout(PATIENCE, found.wait_for(is_expected)).await;
        seen.unwrap_or_else(|_| panic!("{expected:?} is not seen"))
            .unwrap();
    };
    expect(&[("10.0.0.1:53", true, false)]).await;
    let more = json!([{ "addresses": ["10.0.0.2"] }, { "addresses": ["10.0.0.3"] }]);
    make(slice("b", "kube-dns", &more)).await;
    expect(&[
        ("10.0.0.1:53", true, false),
        ("10.0.0.2:53", true, false),
        ("10.0.0.3:53", true, false),
    ])
    .await;
    let ending = json!({ "endpoints": [{
        "addresses": ["10.0.0.1"],
        "conditions": { "ready": false, "serving": true, "terminating": true },
    }] });
    slices
        .patch("a", &PatchParams::default(), &Patch::Merge(ending))
        .await
        .unwrap();
    expect(&[
        ("10.0.0.1:53", false, true),
        ("10.0.0.2:53", true, false),
        ("10.0.0.3:53", true, false),
    ])
    .await;
    slices.delete("b", &DeleteParams::default()).await.unwrap();
    expect(&[("10.0.0.1:53", false, true)]).await;
    token.cancel();
    task.await.unwrap().unwrap();
}

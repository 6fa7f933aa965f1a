//! Leases of other versions.

use std::{fs, path::Path};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use tests::kube::ApiServer;

use crate::collectors::Collector;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leases_of_version_0_1_and_of_later_ones_are_shared() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/0.1/leases.json");
    let left: Vec<Lease> = serde_json::from_slice(&fs::read(fixture).unwrap()).unwrap();
    for mut lease in left {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert("example.com/later".to_owned(), "kept".to_owned());
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }
    // The holder of version 0.1 does not renew: the Lease expires at its own time, and the collector leads.
    let collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
    collector.expect_leading(true).await;
    let lease = leases.get("collector").await.unwrap();
    let annotations = lease.metadata.annotations.unwrap_or_default();
    let kept = annotations.get("example.com/later").map(String::as_str);
    assert_eq!(kept, Some("kept"));
    let messages = collector.program.messages();
    let mut levels = messages
        .iter()
        .filter_map(|message| message["level"].as_str());
    assert!(levels.all(|level| level != "ERROR"), "{messages:?}");
}

//! A fact that an account cannot see is unknown; a check before the installation.

use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::DeleteParams};
use tests::{or_skip, wait::eventually};

use super::is_well;
use crate::installation::{DNS_NAMESPACE, Installation, OBJECTS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_seen_is_unknown_and_a_cluster_is_checked_before() {
    let it = or_skip!(Installation::start().await);
    is_well(&it).await;

    // Every account may ask for the version and the kinds of objects, and this one for nothing else.
    it.server.config_of(OBJECTS, "default").await;
    let kubeconfig = it.server.folder().join("default.kubeconfig");
    let (status, text) = it.egress_as(&kubeconfig, &["check"]).await;
    assert_eq!(status, Some(2), "{text}");
    let seen: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(['✓', '!', '✗']))
        .collect();
    let expected = ["✓ API server: "];
    assert_eq!(seen.len(), expected.len(), "{text}");
    assert!(
        seen.iter()
            .zip(expected)
            .all(|(line, start)| line.starts_with(start)),
        "{text}"
    );
    assert!(
        text.contains(
            "User \"system:serviceaccount:ovn-kubernetes:default\" cannot list resource \"pods\""
        ),
        "{text}"
    );

    let before = async |status: i32, parts: &[&str]| {
        let (ended, text) = it
            .egress(&["check", "--pre", "--release-namespace", "dns-names"])
            .await;
        assert_eq!(ended, Some(status), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    let parts = [
        "✓ ovn-kubernetes: --enable-dns-name-resolver is off: ovnWriter.mode=interconnect",
        "✓ CoreDNS: 2 pods are ready, version 1.14.7",
        "All is well.",
    ];
    before(0, &parts).await;

    let client = it.server.client().await;
    let services: Api<Service> = Api::namespaced(client, DNS_NAMESPACE);
    services
        .delete("kube-dns", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the Service is gone", async || {
        let gone = services
            .get_opt("kube-dns")
            .await
            .map_err(|error| error.to_string())?;
        gone.is_none()
            .then_some(())
            .ok_or_else(|| "it is there".to_owned())
    })
    .await;
    before(1, &["✗ CoreDNS: there is no Service kube-system/kube-dns"]).await;
}

//! Two ovn-writers of one database, of which one leads by a Lease.

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use proto::api::{DnsNameResolver, Family};
use serde_json::json;
use tests::{
    chart::{CENTRAL, OVN_WRITER},
    kube::ApiServer,
    northbound::Northbound,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

const NAMESPACE: &str = "ovn-kubernetes";
const NAME: &str = "www.example.com.";
const OBJECT: &str = "dns-www";

async fn write_status(objects: &Api<DnsNameResolver>, ip: &str) {
    let address = json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"});
    let entry = json!({"dnsName": NAME, "resolvedAddresses": [address]});
    let status = json!({"status": {"resolvedNames": [entry]}});
    objects
        .patch_status(OBJECT, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn expect(northbound: &Northbound, address: &str) {
    eventually(&format!("{NAME} = {address}"), async || {
        let rows = northbound.sets(NAME, Family::V4)?;
        let is_right = matches!(&*rows, [row] if row.addresses.iter().eq([address]));
        is_right.then_some(()).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ovn_writer_that_stands_by_takes_over_when_the_leader_is_killed() {
    let server = ApiServer::start().await;
    server.make_namespace(NAMESPACE).await;
    server.grant(NAMESPACE, &CENTRAL).await;
    server.config_of(NAMESPACE, OVN_WRITER).await;
    let objects: Api<DnsNameResolver> = Api::namespaced(server.client().await, NAMESPACE);
    let object = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {"name": OBJECT},
        "spec": {"name": NAME},
    });
    let object = serde_json::from_value(object).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    write_status(&objects, "203.0.113.1").await;

    let workdir = Workdir::new();
    let northbound = Northbound::start(workdir.path()).await;
    let remote = northbound.remote();
    let kubeconfig = server.folder().join(format!("{OVN_WRITER}.kubeconfig"));
    let start = async || {
        let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
        let args = ["--store", "kube", "--nb", &remote, "--leader-elect"].map(str::to_owned);
        Program::start_with(workdir.path(), "ovn-writer", args.to_vec(), environment).await
    };
    let mut first = start().await;
    first.counts("replica_leading", &[], 1.0).await;
    expect(&northbound, "203.0.113.1").await;
    let second = start().await;
    second.ready().await;
    // Who stands by knows that all is well, and leaves what is not to the other.
    second.counts("ovn_writer_in_sync", &[], 1.0).await;
    write_status(&objects, "203.0.113.2").await;
    expect(&northbound, "203.0.113.2").await;
    let done = async |program: &Program| {
        let metric = program.admin().metric("ovn_writer_rows_changed_total", &[]);
        metric.await.unwrap()
    };
    assert!(done(&second).await.abs() < 0.5);
    first.process().kill();
    write_status(&objects, "203.0.113.3").await;
    expect(&northbound, "203.0.113.3").await;
    second.counts("replica_leading", &[], 1.0).await;
    assert!(done(&second).await > 0.5);
}

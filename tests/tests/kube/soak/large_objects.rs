//! The memory of a program that reads objects of a megabyte: the limits of `docs/operate.md`.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use proto::api::DnsNameResolver;
use serde_json::{Value, json};
use tests::{kube::ApiServer, soak::or_long, wait::eventually_within};
use tokio::time::sleep;

use crate::databases::{PATIENCE, Ruled};

/// The names in an object, each with ten addresses.
const NAMES: usize = 1_000;

/// The status of a wildcard, of a megabyte.
fn status(object: usize) -> Value {
    let entry = |name: usize| {
        let address = |last: usize| {
            json!({
                "ip": format!("2001:db8:{object:x}:{name:x}:aaaa:bbbb:cccc:{last:x}"),
                "ttlSeconds": 900,
                "lastLookupTime": "2026-01-01T00:00:00Z",
            })
        };
        let addresses: Vec<_> = (1..=10).map(address).collect();
        let name = format!("n{name}.o{object}.example.com.");
        json!({ "dnsName": name, "resolvedAddresses": addresses })
    };
    json!({ "resolvedNames": (0..NAMES).map(entry).collect::<Vec<_>>() })
}

async fn make(objects: &Api<DnsNameResolver>, number: usize) {
    let object = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": { "name": format!("o{number}") },
        "spec": { "name": format!("*.o{number}.example.com.") },
    });
    let object = serde_json::from_value(object).unwrap();
    let made = objects.create(&PostParams::default(), &object).await;
    let mut made = made.unwrap();
    let status = status(number);
    let size = status.to_string().len();
    assert!((900_000..1_200_000).contains(&size), "{size} bytes");
    made.status = Some(serde_json::from_value(status).unwrap());
    let params = PostParams::default();
    let name = format!("o{number}");
    objects.replace_status(&name, &params, &made).await.unwrap();
}

/// Another ovn-writer holds the Lease, so that this one only reads.
async fn hold_lease(leases: Api<Lease>) {
    let spec = LeaseSpec {
        holder_identity: Some("other".to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    };
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some("ovn-writer".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    };
    leases.create(&PostParams::default(), &lease).await.unwrap();
    loop {
        let renewed = json!({ "spec": { "renewTime": MicroTime(Timestamp::now()) } });
        let (params, renewed) = (PatchParams::default(), Patch::Merge(renewed));
        let renewed = leases.patch("ovn-writer", &params, &renewed).await;
        renewed.unwrap();
        sleep(Duration::from_secs(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_megabyte_fit_the_memory_limit() {
    // Half a million names have half of the limit for a million names.
    let (count, limit) = or_long((20, 256 << 20), (500, (3 << 30) / 2));
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let objects: Api<DnsNameResolver> = Api::namespaced(client.clone(), &namespace);
    stream::iter(0..count)
        .for_each_concurrent(4, |number| make(&objects, number))
        .await;
    let lease = tokio::spawn(hold_lease(Api::namespaced(client, &namespace)));
    let database = Ruled::start(&[]).await;
    let kubeconfig = server.kubeconfig();
    let lease_flag = ["--leader-elect"];
    let mut writer = database.writer(&kubeconfig, &namespace, &lease_flag).await;
    eventually_within(PATIENCE, "it has read all objects", async || {
        let read = writer
            .admin()
            .metric("egress_ovn_writer_objects", &[])
            .await;
        let read = read.map_err(|error| error.to_string())?;
        (read as usize == count)
            .then_some(())
            .ok_or(read.to_string())
    })
    .await;
    let [now, most] = writer.process().memory().map(|bytes| bytes >> 20);
    println!("{count} objects of 1 MB: {now} MiB, at most {most} MiB while reading");
    assert!(most << 20 < limit, "{most} MiB");
    assert!(!lease.is_finished(), "this one only reads");
}

//! Invalid objects, statuses and rules.

use std::time::Instant;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::{Value, json};
use tests::{kube::ApiServer, wait::eventually};

use crate::{
    collectors::{Collector, NEVER, Objects},
    history::addresses,
};

const NAME: &str = "www.example.com.";

const OTHER: &str = "other.example.com.";

const FUTURE: &str = "2099-01-31T12:00:00Z";

fn address(ip: &str, ttl: i64, looked_up: &str) -> Value {
    json!({ "ip": ip, "ttlSeconds": ttl, "lastLookupTime": looked_up })
}

/// Overwrites a status, whatever the collector has written.
async fn write(objects: &Objects, object: &str, status: Value) -> Result<(), String> {
    let patch = Patch::Merge(json!({ "status": status }));
    let params = PatchParams::default();
    let resource = ApiResource::erase::<DnsNameResolver>(&());
    let client = objects.api.clone().into_client();
    let raw: Api<DynamicObject> = Api::namespaced_with(client, &objects.namespace, &resource);
    let written = raw.patch_status(object, &params, &patch).await;
    written.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_the_crd_takes_is_believed_no_further_than_it_can_be() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("a", NAME).await;
    let collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
    collector.nameserver.set(NAME, &["192.0.2.1"], 1);
    objects.expect(NAME, &["192.0.2.1"]).await;
    let status = json!({ "resolvedNames": [
        { "dnsName": OTHER, "resolvedAddresses": [address("10.0.0.1", 600, FUTURE)] },
        { "dnsName": NAME, "resolutionFailures": -7, "resolvedAddresses": [
            address("10.0.0.2", 3600, FUTURE),
            address("10.0.0.3", 3, FUTURE),
            address("10.0.0.4", 3600, "1970-01-01T00:00:00Z"),
            address("10.0.0.5", -3, FUTURE),
            // Two spellings of one address, and two addresses that must never be programmed.
            address("2001:db8::1", 3600, FUTURE),
            address("2001:DB8:0:0::1", 3600, FUTURE),
            address("127.0.0.1", 3600, FUTURE),
            address("::ffff:169.254.169.254", 3600, FUTURE),
        ] },
    ] });
    write(&objects, "a", status).await.unwrap();
    let written = Instant::now();
    // Entries that are expired by their times are looked up before they leave; the same holds for a TTL of zero.
    objects
        .expect(NAME, &["192.0.2.1", "10.0.0.2", "2001:db8::1"])
        .await;
    let put_right = written.elapsed();
    let object = objects.api.get("a").await.unwrap();
    let names = object.status.unwrap().resolved_names;
    let [entry] = names.as_slice() else {
        panic!("{names:?}");
    };
    assert_eq!(entry.resolution_failures, 0);
    let now = k8s_openapi::jiff::Timestamp::now();
    for address in &entry.resolved_addresses {
        assert!(address.last_lookup_time.0 <= now, "{address:?}");
    }
    println!("a status with times in the future was right after {put_right:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_laxer_crd_takes_costs_itself_alone() {
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    for (object, name) in [("a", NAME), ("b", OTHER)] {
        objects.make(object, name).await;
    }
    server.take_any("dnsnameresolvers").await;
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
    for name in [NAME, OTHER] {
        collector.nameserver.set(name, &["192.0.2.1"], 1);
        objects.expect(name, &["192.0.2.1"]).await;
    }
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let status = json!({ "resolvedNames": [
        { "dnsName": NAME, "resolvedAddresses": [
            address("10.0.0.1", 3600, &now),
            address("10.0.0.1", 1, &now),
            address("no address", 3600, &now),
            address("10.0.0.0/8", 3600, &now),
            address("", 3600, &now),
        ] },
        { "dnsName": NAME, "resolvedAddresses": [address("10.0.0.2", 3600, &now)] },
        { "dnsName": "no name", "resolvedAddresses": [address("10.0.0.3", 3600, &now)] },
        { "dnsName": "WWW.example.com.", "resolvedAddresses": [address("10.0.0.4", 3600, &now)] },
    ] });
    // The new CRD is in force a moment later.
    eventually("the CRD takes everything", async || {
        write(&objects, "a", status.clone()).await
    })
    .await;
    objects
        .expect(NAME, &["192.0.2.1", "10.0.0.1", "10.0.0.2"])
        .await;

    // An EgressFirewall that does not decode changes nothing.
    server.take_any("egressfirewalls").await;
    let resource = ApiResource::erase::<EgressFirewall>(&());
    let raw: Api<DynamicObject> =
        Api::namespaced_with(server.client().await, &namespace, &resource);
    let mut firewall = DynamicObject::new("default", &resource);
    firewall.data = json!({ "spec": { "egress": "everything" } });
    eventually("the CRD takes everything", async || {
        let made = raw.create(&PostParams::default(), &firewall).await;
        made.map(drop).map_err(|error| error.to_string())
    })
    .await;
    collector
        .program
        .counts("egress_store_undecodable_objects", &["EgressFirewall"], 1.0)
        .await;

    // An object that does not decode: its last known state stays, and is written when that is possible.
    let undecodable = json!({ "resolvedNames": [
        { "dnsName": OTHER, "resolvedAddresses": "many" },
    ] });
    write(&objects, "b", undecodable).await.unwrap();
    collector
        .program
        .counts(
            "egress_store_undecodable_objects",
            &["DNSNameResolver"],
            1.0,
        )
        .await;
    let pid = collector.program.process().pid();
    for name in [NAME, OTHER] {
        collector.hears(name, &[[10, 0, 0, 9].into()], 600).await;
    }
    let told = (NAME.to_owned(), "10.0.0.9".to_owned());
    eventually("others go on", async || {
        let object = objects.api.get("a").await.map_err(|e| e.to_string())?;
        let found = addresses(&object);
        found
            .contains(&told)
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
    collector.program.ready().await;
    write(&objects, "b", Value::Null).await.unwrap();
    objects.expect(OTHER, &["192.0.2.1", "10.0.0.9"]).await;
    let bad = collector
        .metric("egress_store_undecodable_objects", &["DNSNameResolver"])
        .await;
    assert_eq!(bad, 0.0);
    assert!(collector.is_the_process(pid));
}

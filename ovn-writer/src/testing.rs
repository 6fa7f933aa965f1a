//! Objects for unit tests.

use proto::api::{DnsName, DnsNameResolver};
use runtime::store::ObjectKey;

/// A `DNSNameResolver`, whose status has one entry for each list of addresses.
pub(crate) fn object(object_name: &str, dns_name: &str, entries: &[&[&str]]) -> DnsNameResolver {
    let entry = |(index, addresses): (usize, &&[&str])| {
        let address = |ip: &&str| serde_json::json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"});
        serde_json::json!({
            "dnsName": format!("n{index}.example.com."),
            "resolvedAddresses": addresses.iter().map(address).collect::<Vec<_>>(),
        })
    };
    let resolved: Vec<_> = entries.iter().enumerate().map(entry).collect();
    serde_json::from_value(serde_json::json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {"namespace": "ns", "name": object_name},
        "spec": {"name": dns_name},
        "status": {"resolvedNames": resolved},
    }))
    .unwrap()
}

/// A `DNSNameResolver` whose status says that the name has no address, for this reason.
pub(crate) fn without_addresses(
    object_name: &str,
    dns_name: &str,
    reason: &str,
) -> DnsNameResolver {
    let condition = serde_json::json!({
        "type": "Degraded", "status": "True", "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let entry = serde_json::json!({
        "dnsName": dns_name, "resolvedAddresses": [], "conditions": [condition],
    });
    let mut object = object(object_name, dns_name, &[]);
    let status = serde_json::json!({"resolvedNames": [entry]});
    object.status = Some(serde_json::from_value(status).unwrap());
    object
}

pub(crate) fn key(object_name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ns".to_owned(),
        name: object_name.to_owned(),
    }
}

pub(crate) fn dns(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

//! The etcd size of names with one address each under wildcards: the most expensive case per address.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::api::PostParams;
use proto::api::{DnsNameResolver, DnsNameResolverStatus, ResolvedAddress, ResolvedName};
use tests::{kube::ApiServer, soak::or_long};

use super::NAMESPACE;
use crate::collectors::Objects;

/// The maximum names of a wildcard, and of all namespaces with one address each.
const OF_A_WILDCARD: usize = 1_024;
const IN_ALL: f64 = 1e6;

/// The size at which etcd refuses writes, and the part of it that all statuses with their history may use.
const ETCD_QUOTA: f64 = (2_u64 << 30) as f64;

/// The status of a full wildcard in the collector's form.
fn full(wildcard: usize) -> DnsNameResolverStatus {
    let name = |number: usize| ResolvedName {
        conditions: vec![Condition {
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            message: "the last look-up succeeded".to_owned(),
            observed_generation: None,
            reason: "NOERROR".to_owned(),
            status: "False".to_owned(),
            type_: "Degraded".to_owned(),
        }],
        dns_name: format!("bucket-{number:06}.w{wildcard}.s3.example.com."),
        resolved_addresses: vec![ResolvedAddress {
            ip: format!("198.51.{}.{}", number / 256, number % 256).into(),
            ttl_seconds: 300,
            last_lookup_time: Time(Timestamp::UNIX_EPOCH),
        }],
        resolution_failures: 0,
    };
    DnsNameResolverStatus {
        resolved_names: (0..OF_A_WILDCARD).map(name).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_names_of_one_address_take_less_than_half_of_etcds_quota() {
    let server = ApiServer::start().await;
    server.make_namespace(NAMESPACE).await;
    let objects = Objects::of(&server, NAMESPACE).await;
    let before = server.stored_bytes().await;
    let count = or_long(8, 64);
    for wildcard in 0..count {
        let (object, name) = (
            format!("w{wildcard}"),
            format!("*.w{wildcard}.s3.example.com."),
        );
        let mut made: DnsNameResolver = objects.make(&object, &name).await;
        made.status = Some(full(wildcard));
        let written = objects
            .api
            .replace_status(&object, &PostParams::default(), &made)
            .await;
        written.expect("a status");
    }
    let bytes = server.stored_bytes().await - before;
    let of_a_name = bytes / (count * OF_A_WILDCARD) as f64;
    println!(
        "{count} full wildcards of single addresses: {:.1} MB in etcd, {of_a_name:.0} bytes a name, {:.0} MB a million",
        bytes / 1e6,
        of_a_name * IN_ALL / 1e6
    );
    assert!(of_a_name * IN_ALL < ETCD_QUOTA / 2.0, "{of_a_name}");
}

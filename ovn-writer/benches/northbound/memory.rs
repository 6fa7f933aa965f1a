//! The resident memory per address, in the replica and the desired state together.

use std::{net::IpAddr, process};

use ovn_writer::{address_set::AddressSet, desired::Desired};
use ovsdb_replica::{Replica, Tables, replica::TableUpdates};
use proto::api::Family;
use runtime::store::Event;
use serde_json::{json, value::RawValue};
use tests::process::memory;

use crate::{
    Bench,
    objects::{dns_name, object, v4, v6},
    writer::STORE,
};

/// Names and objects created at once, so that their sources need little memory.
const CHUNK: usize = 1_000;

pub(crate) fn run(bench: &mut Bench) {
    println!("memory: a quarter of the addresses is IPv6");
    // What was freed would be used again.
    let mut kept = Vec::new();
    for (names, each) in [(10_000, 100), (100_000, 10)] {
        let names = bench.rounds(names);
        let (desired, of_desired) = measured(|| desired(names, each));
        let (replica, of_replica) = measured(|| replica(names, each));
        assert_eq!((desired.objects(), replica.len()), (names, 2 * names));
        let count = (names * each) as f64;
        let [of_desired, of_replica] = [of_desired, of_replica].map(|bytes| bytes as f64 / count);
        println!("  {names} names x {each}: {of_desired:.1} desired, {of_replica:.1} replica");
        let what = format!("bytes an address of {names} names x {each}");
        let both = of_desired + of_replica;
        bench.verdicts.judge(&what, both, 150.0);
        kept.push((desired, replica));
    }
}

/// The result of `make`, and by how many bytes the process grew.
fn measured<T>(make: impl FnOnce() -> T) -> (T, u64) {
    let resident = || memory(process::id())[0];
    let before = resident();
    let made = make();
    (made, resident().saturating_sub(before))
}

fn addresses(name: usize, each: usize) -> impl Iterator<Item = IpAddr> {
    let numbers = name * each..(name + 1) * each;
    numbers.map(|n| if n % 4 == 0 { v6(n) } else { v4(n) })
}

fn desired(names: usize, each: usize) -> Desired {
    let mut desired = Desired::default();
    desired.apply(&Event::Synced(Vec::new()));
    for name in 0..names {
        let object = object(&format!("set{name}"), addresses(name, each));
        desired.apply(&Event::Applied(object));
    }
    desired
}

/// A replica, as if the writer's own rows had been read.
fn replica(names: usize, each: usize) -> Replica<AddressSet> {
    let mut replica = Replica::default();
    for start in (0..names).step_by(CHUNK) {
        let rows = (start..start + CHUNK)
            .flat_map(|name| Family::ALL.map(|family| row(name, family, addresses(name, each))));
        let rows: serde_json::Map<_, _> = rows.collect();
        let updates = RawValue::from_string(json!({ "Address_Set": rows }).to_string()).unwrap();
        let updates = TableUpdates::read_differences(&updates).unwrap();
        AddressSet::apply(&mut replica, updates, &mut Default::default()).unwrap();
    }
    replica
}

fn row(
    name: usize,
    family: Family,
    addresses: impl Iterator<Item = IpAddr>,
) -> (String, serde_json::Value) {
    let dns_name = dns_name(&format!("set{name}"));
    let number = 2 * name + usize::from(family == Family::V6);
    let addresses: Vec<_> = addresses
        .filter(|address| address.is_ipv6() == (family == Family::V6))
        .collect();
    let columns = json!({
        "name": format!("a{}", 10_000_000_000_000_000_000 + number as u64),
        "addresses": ["set", addresses],
        "external_ids": ["map", [
            ["k8s.ovn.org/owner-controller", "default-network-controller"],
            ["k8s.ovn.org/owner-type", "EgressFirewallDNS"],
            ["k8s.ovn.org/name", dns_name],
            ["ip-family", family.as_str()],
            ["k8s.ovn.org/id", format!("default-network-controller:EgressFirewallDNS:{dns_name}:{family}")],
            ["ovn-writer/created", STORE],
        ]],
    });
    (
        format!("00000000-0000-4000-8000-{number:012x}"),
        json!({ "initial": columns }),
    )
}

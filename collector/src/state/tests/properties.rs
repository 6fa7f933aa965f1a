//! What holds for any answers, in any order.

use proptest::prelude::*;
use proto::api::DnsNameResolverStatus;

use super::*;

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let one = (
        0..4_usize,
        prop::collection::vec((0..6_u8, 0..400_u32), 1..5),
        0..600_u32,
    );
    prop::collection::vec(one, 1..20).prop_map(|list| {
        let make = |(label, addresses, second): (usize, Vec<(u8, u32)>, u32)| {
            let asked = [
                "*.example.com",
                "a.example.com",
                "b.example.com",
                "c.example.com",
            ][label];
            let mut observation = answer(asked, &[], f64::from(second));
            observation.addresses = addresses
                .iter()
                .map(|(i, ttl)| (IpAddr::from([1, 1, 1, *i + 1]), *ttl))
                .collect();
            observation
        };
        list.into_iter().map(make).collect()
    })
}

fn rendered(observations: &[Observation], now: f64) -> DnsNameResolverStatus {
    let mut known = Known::new("*.example.com");
    for observation in observations {
        known.memory.observe(observation, &known.limits);
    }
    known.write(now);
    known.stored
}

fn union(status: &DnsNameResolverStatus) -> std::collections::BTreeSet<String> {
    let addresses = status
        .resolved_names
        .iter()
        .flat_map(|entry| &entry.resolved_addresses);
    addresses.map(|address| address.ip.clone()).collect()
}

proptest! {
    #[test]
    fn observations_are_idempotent_and_commute(list in observations()) {
        let once = rendered(&list, 600.0);
        let twice: Vec<_> = list.iter().chain(&list).cloned().collect();
        prop_assert_eq!(&rendered(&twice, 600.0), &once);
        let backwards: Vec<_> = list.iter().rev().cloned().collect();
        prop_assert_eq!(&rendered(&backwards, 600.0), &once);
    }

    #[test]
    fn a_status_has_every_address_once_and_writing_it_again_changes_nothing(list in observations()) {
        let mut known = Known::new("*.example.com");
        let mut all = std::collections::BTreeSet::new();
        for observation in &list {
            known.memory.observe(observation, &known.limits);
            known.write(600.0);
            all.extend(observation.addresses.iter().map(|(ip, _)| ip.to_string()));
        }
        prop_assert_eq!(union(&known.stored), all);
        let names: Vec<_> = known.stored.resolved_names.iter().map(|entry| &entry.dns_name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(unique.len(), names.len());
        let stored = known.stored.clone();
        known.absorb(&stored, 600.0);
        prop_assert!(!known.write(600.0));
    }

    #[test]
    fn nothing_leaves_before_expiry_and_grace(list in observations(), now in 0..1200_u32) {
        let mut known = Known::new("*.example.com");
        for observation in &list {
            known.memory.observe(observation, &known.limits);
        }
        known.expire(f64::from(now));
        known.write(f64::from(now));
        let left = union(&known.stored);
        for observation in &list {
            for (ip, ttl) in &observation.addresses {
                let until = observation.at + Duration::from_secs(u64::from(*ttl).max(5) + 5);
                prop_assert!(until <= at(f64::from(now)) || left.contains(&ip.to_string()));
            }
        }
    }
}

//! Properties that hold for any order of answers, failures and statuses.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, sample::select};
use proto::api::DnsNameResolverStatus;
use serde_json::json;

use super::{super::tests::table::check_crd, *};
use crate::failure::Failure;

pub(super) const SPEC: &str = "*.example.com";

const NAMES: [&str; 4] = [SPEC, "a.example.com", "b.example.com", "c.example.com"];

fn address(i: u8) -> IpAddr {
    match i % 2 {
        0 => IpAddr::from([1, 1, 1, i + 1]),
        _ => format!("2001:db8::{i}").parse().unwrap(),
    }
}

/// `latest` is in seconds.
fn observation(latest: u32) -> impl Strategy<Value = Observation> {
    let addresses = prop::collection::vec((0..6_u8, 0..400_u32), 1..5);
    let quarters = 0..=4 * latest;
    (select(&NAMES), addresses, quarters, 0..3_u8).prop_map(|(asked, addresses, quarters, by)| {
        let mut observation = answer(asked, &[], f64::from(quarters) / 4.0);
        // All addresses of an answer are of one family.
        let v6 = addresses[0].0 % 2;
        observation.family = [Family::V4, Family::V6][usize::from(v6)];
        let addresses = addresses.iter().map(|(i, ttl)| (i / 2 * 2 + v6, *ttl));
        observation.addresses = addresses.map(|(i, ttl)| (address(i), ttl)).collect();
        observation.client = (by > 0).then(|| IpAddr::from([10, 0, 0, by]));
        observation
    })
}

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    prop::collection::vec(observation(600), 1..20)
}

/// A status as a person might write it.
fn any_status() -> impl Strategy<Value = DnsNameResolverStatus> {
    let names = select(&[
        "*.example.com.",
        "a.example.com.",
        "b.example.com.",
        "A.example.com.",
        "a_b.example.com.",
        "a.b.example.com.",
        "other.",
        "",
    ]);
    let ips = select(&[
        "1.1.1.1",
        "1.1.1.3",
        "2001:db8::1",
        "2001:DB8:0::1",
        "::ffff:1.1.1.1",
        "127.0.0.1",
        "malformed",
        "",
    ]);
    let ttl = prop_oneof![Just(i32::MIN), -5..400_i32, Just(i32::MAX)];
    let address = (ips, ttl, -1_000_000..1_000_000_i64)
        .prop_map(|(ip, ttl, second)| stored_address(ip, ttl.into(), second));
    let conditions = select(&[
        r#"[]"#,
        r#"[{"type": "Degraded", "status": "True", "reason": "SERVFAIL", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]"#,
        r#"[{"type": "Degraded", "status": "False", "reason": "NOERROR", "message": "the last look-up succeeded", "lastTransitionTime": "2026-01-01T00:00:00Z"}]"#,
        r#"[{"type": "Other", "status": "Unknown", "reason": "R", "message": "", "lastTransitionTime": "2100-01-01T00:00:00.5Z"},
            {"type": "Degraded", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]"#,
    ]);
    let addresses = prop::collection::vec(address, 0..6);
    let entry = (names, addresses, conditions, any::<i32>()).prop_map(
        |(dns_name, addresses, conditions, failures)| {
            json!({
                "dnsName": dns_name,
                "resolvedAddresses": addresses,
                "conditions": serde_json::from_str::<serde_json::Value>(conditions).unwrap(),
                "resolutionFailures": failures,
            })
        },
    );
    prop::collection::vec(entry, 0..5).prop_map(|entries| status(entries.into()))
}

#[derive(Clone, Debug)]
pub(super) enum Happens {
    Observed(Observation),
    Stored(DnsNameResolverStatus),
    LookedUp(&'static str, [FamilyResult; 2]),
    Failed(&'static str, [Failure; 2]),
    /// A pause, or another leader.
    Gap,
    Expired,
    Written,
}

/// Events, each with the time since the one before.
pub(super) fn happenings() -> impl Strategy<Value = Vec<(Happens, f64)>> {
    let failures = || select(&[Failure::NXDOMAIN, Failure::Rcode(2), Failure::Timeout]);
    let results = || {
        use FamilyResult::{Absent, Complete, Unknown};
        select(&[Absent, Absent, Absent, Complete, Unknown])
    };
    let one = prop_oneof![
        3 => observation(0).prop_map(Happens::Observed),
        1 => any_status().prop_map(Happens::Stored),
        3 => (select(&NAMES), [results(), results()])
            .prop_map(|(name, results)| Happens::LookedUp(name, results)),
        2 => (select(&NAMES), [failures(), failures()])
            .prop_map(|(name, failures)| Happens::Failed(name, failures)),
        1 => Just(Happens::Gap),
        2 => Just(Happens::Expired),
        2 => Just(Happens::Written),
    ];
    let later = prop_oneof![Just(0.0), 0.0..20.0, 0.0..2000.0];
    prop::collection::vec((one, later), 1..30)
}

impl Known {
    /// Returns how many addresses and names were evicted.
    pub(super) fn happen(&mut self, what: &Happens, now: f64) -> usize {
        let (limits, time) = (self.limits.clone(), at(now));
        let effect = match what {
            Happens::Observed(observation) => {
                let mut observation = observation.clone();
                (observation.at, observation.answered_at) = (time, time);
                self.hear(&observation)
            }
            Happens::Stored(new) => self.read_back(new.clone(), now),
            Happens::LookedUp(asked, results) => self.looked_up(asked, *results, now),
            Happens::Failed(asked, failures) => self.failed(asked, *failures, now),
            Happens::Gap => {
                let stored = Stored::new(&self.stored, &self.state);
                let effect = self.state.take_over(&stored, time, &limits, admit);
                self.state.on_clock_jump(time, &limits);
                effect
            }
            Happens::Expired => {
                self.state.expire(time, &limits);
                return 0;
            }
            Happens::Written => {
                self.write(now);
                return 0;
            }
        };
        let effect = super::join(effect, self.enforce());
        effect.evicted_addresses + effect.evicted_names
    }

    /// The store has this status now.
    fn read_back(&mut self, status: DnsNameResolverStatus, now: f64) -> UpdateEffect {
        let before = Stored::new(&self.stored, &self.state);
        let read = Stored::new(&status, &self.state);
        self.stored = status;
        self.state
            .apply_stored(&read, Some(&before), at(now), &self.limits, admit)
    }

    /// The expiry of each known address.
    pub(super) fn expiries(&self) -> BTreeMap<(DnsName, IpAddr), Timestamp> {
        let names = self.state.list.names.iter();
        names
            .flat_map(|name| {
                let of_address = |address: &super::super::name::Address| {
                    ((name.dns_name.clone(), address.ip), address.expiry())
                };
                name.addresses.iter().map(of_address)
            })
            .collect()
    }
}

fn rendered(observations: &[Observation], now: f64) -> DnsNameResolverStatus {
    let mut known = Known::new(SPEC);
    for observation in observations {
        known.hear(observation);
    }
    known.write(now);
    known.stored
}

/// The latest expiry of each address, of all names.
fn union(status: &DnsNameResolverStatus) -> BTreeMap<String, i64> {
    let mut union = BTreeMap::new();
    for address in status
        .resolved_names
        .iter()
        .flat_map(|entry| &entry.resolved_addresses)
    {
        let expiry = address.last_lookup_time.0.as_second() + i64::from(address.ttl_seconds);
        let latest = union.entry(address.ip.to_string()).or_insert(expiry);
        *latest = expiry.max(*latest);
    }
    union
}

proptest! {
    #[test]
    fn observations_are_idempotent_and_commute(
        (list, shuffled) in observations().prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
    ) {
        let once = rendered(&list, 600.0);
        let twice: Vec<_> = list.iter().chain(&list).cloned().collect();
        prop_assert_eq!(&rendered(&twice, 600.0), &once);
        prop_assert_eq!(&rendered(&shuffled, 600.0), &once);
    }

    #[test]
    fn status_has_every_address_with_its_expiry_and_is_stable(list in observations()) {
        let mut known = Known::new(SPEC);
        let mut all = BTreeSet::new();
        for observation in &list {
            known.hear(observation);
            known.write(600.0);
            all.extend(observation.addresses.iter().map(|(ip, _)| ip.to_string()));
        }
        let union = union(&known.stored);
        for ((_, ip), expiry) in known.expiries() {
            let written = union.get(&ip.to_string()).copied();
            // Within the tolerance of the status, and rounding to whole seconds.
            let least = expiry.as_millis() / 1000 - 10;
            prop_assert!(written.is_some_and(|written| written >= least), "{ip} {written:?} {least}");
        }
        prop_assert_eq!(union.into_keys().collect::<BTreeSet<_>>(), all);
        let stored = known.stored.clone();
        known.apply_stored(&stored, 600.0);
        prop_assert!(!known.write(600.0));
    }

    #[test]
    fn a_status_never_breaks_the_rules_of_the_api(list in happenings()) {
        let mut known = Known::new(SPEC);
        let mut now = 0.0;
        for (what, later) in &list {
            now += later;
            known.happen(what, now);
            if matches!(what, Happens::Written) {
                prop_assert_eq!(check_crd(&known.stored), Ok(()));
                prop_assert!(!known.write(now), "written twice");
            }
        }
    }

    #[test]
    fn address_leaves_early_by_a_counted_eviction_alone(
        list in happenings(),
        limited in any::<bool>(),
        lookups in any::<bool>(),
    ) {
        let mut known = Known::new(SPEC);
        known.limits.lookups = lookups;
        if limited {
            known.limits.addresses_per_name = 2;
            known.limits.names_per_wildcard = 2;
        }
        let mut now = 0.0;
        for (what, later) in &list {
            now += later;
            let before = known.expiries();
            let evicted = known.happen(what, now);
            let after = known.expiries();
            // A gap moves times in the future back.
            if matches!(what, Happens::Gap) {
                continue;
            }
            let alive = |expiry: Timestamp| expiry + known.limits.grace > at(now);
            let gone = before.iter().filter(|(address, expiry)| alive(**expiry) && !after.contains_key(*address));
            let gone: Vec<_> = gone.collect();
            prop_assert!(gone.is_empty() || (limited && evicted > 0), "{what:?}: {gone:?}");
            if let Happens::Observed(observation) = what {
                for (ip, _) in &observation.addresses {
                    let there = after.contains_key(&(observation.name.clone(), *ip));
                    prop_assert!(there || evicted > 0, "{ip} was not taken in");
                }
            }
        }
    }
}

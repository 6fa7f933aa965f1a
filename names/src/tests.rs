mod table;

use std::{net::IpAddr, time::Duration};

use proto::api::{DnsName, DnsNameResolverStatus, Family};
use proto::timestamp::Timestamp;

mod caps;
mod conditions;
mod eviction_order;
mod limits;
mod lookup;
mod model;
mod properties;

use super::{
    Admitted, Eviction, FamilyResult, Limits, LookupSummary, NameState, StatusUpdate, Stored,
    UpdateEffect, limits::STORED_SURPLUS,
};
use crate::{failure::Failure, observation::Observation};

pub(super) const T0: i64 = 1_800_000_000_000;

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp::from_millis(T0 + (seconds * 1000.0) as i64)
}

pub(super) fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

pub(super) fn answer(asked: &str, addresses: &[(&str, u32)], seconds: f64) -> Observation {
    Observation {
        name: name(asked),
        family: Family::V4,
        addresses: addresses
            .iter()
            .map(|(ip, ttl)| (ip.parse().unwrap(), *ttl))
            .collect(),
        at: at(seconds),
        server_time: None,
        answered_at: at(seconds),
        client: None,
        truncated: false,
        source: crate::observation::Provenance::STREAM,
    }
}

pub(super) fn join(one: UpdateEffect, mut other: UpdateEffect) -> UpdateEffect {
    other.evicted_addresses += one.evicted_addresses;
    other.evicted_names += one.evicted_names;
    UpdateEffect {
        names_gone: [one.names_gone, other.names_gone].concat(),
        urgent: one.urgent || other.urgent,
        times: one.times || other.times,
        ..other
    }
}

/// The fixed guards.
pub(super) fn admit(ip: IpAddr) -> Admitted {
    let ip = proto::address::canonical(ip);
    proto::address::check(ip).map_err(proto::address::Forbidden::as_str)?;
    Ok(ip)
}

/// A state, with the status that the store has.
pub(super) struct Known {
    pub(super) state: NameState,
    pub(super) stored: DnsNameResolverStatus,
    pub(super) limits: Limits,
}

impl Known {
    pub(super) fn new(rule_name: &str) -> Self {
        Self {
            state: NameState::new(name(rule_name)),
            stored: DnsNameResolverStatus::default(),
            limits: Limits {
                lookups: false,
                ..Limits::default()
            },
        }
    }

    pub(super) fn observe(
        &mut self,
        asked: &str,
        addresses: &[(&str, u32)],
        seconds: f64,
    ) -> &mut Self {
        self.hear(&answer(asked, addresses, seconds));
        self
    }

    /// Adds an answer and enforces the limits, as before a write.
    pub(super) fn hear(&mut self, observation: &Observation) -> UpdateEffect {
        let effect = self.state.observe(observation, &self.limits);
        join(effect, self.enforce())
    }

    pub(super) fn enforce(&mut self) -> UpdateEffect {
        Eviction::new(&mut self.state, &self.limits).enforce()
    }

    /// Merges a status of another writer; `stored` stays.
    pub(super) fn apply_stored(
        &mut self,
        status: &DnsNameResolverStatus,
        seconds: f64,
    ) -> &mut Self {
        let stored = Stored::new(status, &self.state);
        self.state
            .apply_stored(&stored, None, at(seconds), &self.limits, admit);
        self.enforce();
        self
    }

    /// Applies a look-up that did not fail as a whole.
    pub(super) fn looked_up(
        &mut self,
        asked: &str,
        results: [FamilyResult; 2],
        seconds: f64,
    ) -> UpdateEffect {
        self.admit_again(asked, results, None, seconds)
    }

    /// Applies a look-up without NOERROR, with a failure for each family.
    pub(super) fn failed(
        &mut self,
        asked: &str,
        [v4, v6]: [Failure; 2],
        seconds: f64,
    ) -> UpdateEffect {
        let result = |failure| {
            if failure == Failure::NXDOMAIN {
                FamilyResult::Absent
            } else {
                FamilyResult::Unknown
            }
        };
        let failure = if v4 == Failure::NXDOMAIN { v6 } else { v4 };
        self.admit_again(asked, [result(v4), result(v6)], Some(failure), seconds)
    }

    fn admit_again(
        &mut self,
        asked: &str,
        results: [FamilyResult; 2],
        failure: Option<Failure>,
        seconds: f64,
    ) -> UpdateEffect {
        let summary = LookupSummary {
            results,
            failure,
            started: at(seconds),
        };
        self.state
            .apply_lookup(&name(asked), summary, at(seconds), &self.limits)
    }

    pub(super) fn expire(&mut self, seconds: f64) -> usize {
        self.state.expire(at(seconds), &self.limits).len()
    }

    /// Writes the status if it changed; returns whether it did.
    pub(super) fn write(&mut self, seconds: f64) -> bool {
        let stored = Stored::new(&self.stored, &self.state);
        let change = StatusUpdate::new(&mut self.state, &stored, &self.limits, at(seconds));
        let written = change.is_some();
        if let Some(change) = change {
            self.stored = change.status();
        }
        written
    }
}

pub(super) fn status(json: serde_json::Value) -> DnsNameResolverStatus {
    serde_json::from_value(serde_json::json!({"resolvedNames": json})).unwrap()
}

/// An address as a status has it, with the surplus added to its TTL.
pub(super) fn stored_address(ip: &str, ttl: i64, second: i64) -> serde_json::Value {
    let time = k8s_openapi::jiff::Timestamp::from_second(T0 / 1000 + second).unwrap();
    let ttl = ttl + STORED_SURPLUS.as_secs() as i64;
    let ttl = ttl.min(i64::from(i32::MAX));
    serde_json::json!({"ip": ip, "ttlSeconds": ttl, "lastLookupTime": time.to_string()})
}

#[test]
fn expired_answer_adds_no_address() {
    let mut known = Known::new("www.example.com");
    known.observe("www.example.com", &[("1.1.1.1", 10)], 0.0);
    let mut late = answer("www.example.com", &[("2.2.2.2", 10), ("3.3.3.3", 60)], 40.0);
    late.client = Some([10, 0, 0, 1].into());
    late.answered_at = at(10.0);
    known.hear(&late);
    let expiries: Vec<_> = known.expiries().into_values().collect();
    assert_eq!(expiries, [at(10.0), at(70.0)]);
    // All addresses have expired, so only the query of the client counts.
    late.answered_at = at(-30.0);
    let effect = known.hear(&late);
    assert_eq!(effect, UpdateEffect::default());
    let mut empty = Known::new("www.example.com");
    empty.hear(&late);
    assert!(empty.state.list().is_empty());
}

#[test]
fn answer_that_is_over_shows_that_its_name_is_in_use() {
    for is_seen in [false, true] {
        let mut known = Known::new("*.example.com");
        known.limits.wildcard_idle = Duration::from_secs(60);
        known.observe("a.example.com", &[("1.1.1.1", 100)], 0.0);
        if is_seen {
            let mut late = answer("a.example.com", &[("2.2.2.2", 10)], 50.0);
            (late.client, late.answered_at) = (Some([10, 0, 0, 1].into()), at(5.0));
            known.hear(&late);
        }
        let name = DnsName::parse("a.example.com").unwrap();
        let next = known.state.list().next_lookup(&name, &known.limits);
        assert_eq!(next.is_some(), is_seen);
    }
}

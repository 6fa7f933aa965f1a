//! What went because a limit was reached: counted, and told of on the object.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use serde::Serialize;

use super::StatusController;
use crate::{
    event_history::EventKind,
    notices::Kind,
    observation::Provenance,
    state::{Limits, UpdateEffect},
};

/// For each object this often.
const INTERVAL: Duration = Duration::from_secs(60);

/// How many addresses and names went, in this process's life.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Evictions {
    /// Addresses of names that stayed, or of an object that was too large.
    pub addresses: u64,
    /// Names under a wildcard, with all their addresses.
    pub names: u64,
}

impl Evictions {
    fn add(&mut self, learned: &UpdateEffect) {
        self.addresses += learned.evicted_addresses as u64;
        self.names += learned.evicted_names as u64;
    }
}

/// What went of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evicted {
    pub(super) evictions: Evictions,
    pub(super) told_at: Timestamp,
}

/// What is to be said on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The object.
    pub about: ObjectReference,
    /// The reason of an Event.
    pub reason: &'static str,
    /// The same as long as the limits are, so that it counts as the same Event.
    pub note: String,
}

impl StatusController {
    /// Counts what was evicted for the name.
    pub(super) fn evicted(&mut self, spec: &DnsName, learned: &UpdateEffect, now: Timestamp) {
        for (what, count) in [
            ("address", learned.evicted_addresses),
            ("name", learned.evicted_names),
        ] {
            counter!("collector_evictions_total", "what" => what).increment(count as u64);
        }
        for (name, ip) in &learned.evicted {
            self.note(
                name.clone(),
                Some(*ip),
                EventKind::Evicted,
                Provenance::STATUS,
                now,
            );
        }
        self.evictions.add(learned);
        if let Some(entry) = self.entries.get_mut(spec) {
            entry.evicted.get_or_insert_default().evictions.add(learned);
            self.untold.insert(spec.clone());
        }
    }

    /// Tells of evictions: of a name as soon as it has an object, and then at most once in a minute. What `tell` does not take is told
    /// again after a minute.
    pub fn tell_evictions(&mut self, now: Timestamp, mut tell: impl FnMut(Told) -> bool) {
        self.untold.retain(|spec| {
            let Some(entry) = self.entries.get_mut(spec) else {
                return false;
            };
            let Some(evicted) = &mut entry.evicted else {
                return false;
            };
            if entry.objects.is_empty() || evicted.told_at + INTERVAL > now {
                return true;
            }
            evicted.told_at = now;
            if entry.denied {
                self.config.shared.notices.tell(spec, Kind::DeniedAddresses);
            }
            let are_taken = entry.objects.iter().all(|object| {
                let mut about = object.bare(&self.config.namespace, spec).object_ref(&());
                about.resource_version = None;
                let mut notes = notes(spec, &evicted.evictions, &entry.limits);
                notes.all(|(reason, note)| {
                    tell(Told {
                        about: about.clone(),
                        reason,
                        note,
                    })
                })
            });
            !are_taken
        });
    }

    /// How much was evicted in all.
    pub fn evictions(&self) -> Evictions {
        self.evictions
    }
}

fn notes(
    spec: &DnsName,
    evictions: &Evictions,
    limits: &Limits,
) -> impl Iterator<Item = (&'static str, String)> {
    let addresses = (evictions.addresses > 0).then(|| {
        let note = format!(
            "{spec} has more addresses than are kept ({} of a name, {} bytes of an object): those that were seen longest ago are left out",
            limits.addresses_per_name, limits.object_bytes
        );
        ("AddressesEvicted", note)
    });
    let names = (evictions.names > 0).then(|| {
        let note = format!(
            "{spec} has more names than are kept ({}): of the namespace and of the client that asked for most, those that were seen longest ago are left out",
            limits.names_per_wildcard
        );
        ("NamesEvicted", note)
    });
    addresses.into_iter().chain(names)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{World, at},
        *,
    };
    use crate::controller::ManageObjects;

    const NAME: &str = "www.example.com.";

    fn small() -> World {
        World::with(ManageObjects::Auto, |config| {
            config.limits.addresses_per_name = 2;
            config.limits.names_per_wildcard = 2;
        })
    }

    fn tell(world: &mut World, now: Timestamp) -> Vec<Told> {
        let mut all = Vec::new();
        world.owner.tell_evictions(now, |told| {
            all.push(told);
            true
        });
        all
    }

    #[test]
    fn evictions_are_told_of_once_there_is_an_object_and_then_once_a_minute() {
        let mut world = small();
        world.want(&[NAME]);
        for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            world.observe(NAME, ip);
        }
        assert_eq!(tell(&mut world, at(0)), []);
        world.settle();
        let told = tell(&mut world, at(0));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].reason, "AddressesEvicted");
        assert_eq!(told[0].about.kind.as_deref(), Some("DNSNameResolver"));
        let object = world.store.values().next().unwrap();
        assert_eq!(told[0].about.name, object.metadata.name);
        assert!(told[0].note.starts_with(NAME), "{}", told[0].note);

        world.observe(NAME, "192.0.2.4");
        assert_eq!(tell(&mut world, at(59_999)), []);
        assert_eq!(tell(&mut world, at(60_000)), told);
        assert_eq!(tell(&mut world, at(600_000)), []);
        assert_eq!(world.owner.evictions().addresses, 2);
    }

    #[test]
    fn evictions_that_are_not_taken_are_told_of_again() {
        let mut world = small();
        world.want(&[NAME]);
        world.settle();
        for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            world.observe(NAME, ip);
        }
        world.owner.tell_evictions(at(0), |_| false);
        assert_eq!(tell(&mut world, at(60_000)).len(), 1);
        assert_eq!(tell(&mut world, at(120_000)), []);
    }

    #[test]
    fn names_that_a_full_wildcard_loses_are_told_of_on_its_object() {
        let mut world = small();
        world.want(&["*.example.com."]);
        world.settle();
        for name in ["a.example.com.", "b.example.com.", "c.example.com."] {
            world.observe(name, "192.0.2.1");
        }
        world.settle();
        let told = tell(&mut world, at(0));
        let reasons: Vec<_> = told.iter().map(|told| told.reason).collect();
        assert_eq!(reasons, ["NamesEvicted"]);
        assert_eq!(world.owner.evictions().names, 1);
    }

    #[test]
    fn what_is_untold_of_a_name_that_is_no_longer_wanted_is_forgotten() {
        let mut world = small();
        world.want(&[NAME]);
        for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            world.observe(NAME, ip);
        }
        world.want(&[]);
        world.settle();
        assert_eq!(tell(&mut world, at(0)), []);
        assert!(world.owner.untold.is_empty());
    }
}

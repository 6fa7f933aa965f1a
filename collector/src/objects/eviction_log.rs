//! Counts evictions, and reports them in Events on the objects.

use std::collections::{BTreeSet, HashMap};

use kube::Resource;
use metrics::counter;
use proto::api::{DnsName, KubeOvnDnsNameResolver};
use runtime::kube_events::{Reporter, Severity};
use serde::Serialize;

use super::{Shared, entry::Entry, object_policy::ObjectPolicy};
use crate::{
    rules::Source,
    state::{Limits, UpdateEffect},
};

/// Evicted addresses and names since the start of the process.
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

/// Evictions that are not reported yet, and their sum.
#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    pub(crate) all: Evictions,
    /// Names whose evictions are not reported yet.
    untold: BTreeSet<DnsName>,
}

impl EvictionLog {
    /// Counts the evictions of a name.
    pub(super) fn count(&mut self, entry: Option<&mut Entry>, learned: &UpdateEffect) {
        for (what, count) in [
            ("address", learned.evicted_addresses),
            ("name", learned.evicted_names),
        ] {
            counter!("egress_collector_evictions_total", "what" => what).increment(count as u64);
        }
        self.all.add(learned);
        if let Some(entry) = entry {
            entry.evicted.get_or_insert_default().add(learned);
            self.untold.insert(entry.memory.list().spec().clone());
        }
    }

    /// Reports evictions of names that have an object.
    pub(crate) fn report(
        &mut self,
        entries: &HashMap<DnsName, Box<Entry>>,
        policy: &ObjectPolicy,
        shared: &Shared,
        reporter: &Reporter,
    ) {
        self.untold.retain(|spec| {
            let Some(entry) = entries.get(spec) else {
                return false;
            };
            let Some(evicted) = &entry.evicted else {
                return false;
            };
            if entry.objects.is_empty() {
                return true;
            }
            if entry.in_use.denied {
                shared.notices.notify_denied(spec);
            }
            for object in &entry.objects {
                let mut about = object.bare(policy, spec).object_ref(&());
                about.resource_version = None;
                if object.source == Source::KubeOvn {
                    let version = KubeOvnDnsNameResolver::api_version(&());
                    about.api_version = Some(version.into_owned());
                }
                for (reason, note) in notes(spec, evicted, &entry.in_use.limits) {
                    reporter.report(about.clone(), Severity::Warning, reason, note);
                }
            }
            false
        });
    }

    /// Whether every eviction was reported.
    #[cfg(test)]
    pub(crate) fn is_told(&self) -> bool {
        self.untold.is_empty()
    }
}

fn notes(
    spec: &DnsName,
    evictions: &Evictions,
    limits: &Limits,
) -> impl Iterator<Item = (&'static str, String)> {
    let addresses = (evictions.addresses > 0).then(|| {
        let note = format!(
            "{spec} has more addresses than one of the caps allows: {} addresses of a name, {} of an object, where a name counts as three. \
             The collector removes the addresses that it saw longest ago, and Allow rules no longer open them",
            limits.addresses_per_name, limits.object_size
        );
        ("AddressesEvicted", note)
    });
    let names = (evictions.names > 0).then(|| {
        let note = format!(
            "{spec} has more names than the cap allows: {}. The collector removes names that clients asked for in one minute only, and then \
             names of the client with the most, those asked for longest ago first. Allow rules no longer open their addresses",
            limits.names_per_wildcard
        );
        ("NamesEvicted", note)
    });
    addresses.into_iter().chain(names)
}

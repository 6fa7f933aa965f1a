//! Details of one name or one address, for `explain`.

use std::{collections::HashSet, net::IpAddr};

use proto::api::DnsName;
use runtime::{clock::Timestamp, inspect::Subject, store::ObjectKey};
use serde::Serialize;

use super::{
    publisher::Publisher,
    view::{CapView, MAX_FAILING},
};
use names::{AddressFacts, Entry, FailureView, address_stats, failing_names};

/// The most addresses, and the most names, that are listed; the others are counted.
const MOST: usize = 1_000;

/// As many addresses are searched in the status one by one.
const FEW: usize = 8;

/// The details of a name or an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The time of the snapshot.
    pub at: Timestamp,
    /// Whether this replica looks names up, and removes addresses.
    pub leader: bool,
    /// Whether names are looked up at all.
    pub lookups: bool,
    /// Why the guards refuse the address, if they do.
    pub guarded: Option<&'static str>,
    /// The matching names: the name itself, its wildcard, or all names with the address. At most
    /// 1,000.
    pub names: Vec<NameFacts>,
    /// The number of names beyond that.
    pub more_names: usize,
}

/// A name in use or of an object, and its state concerning the subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameFacts {
    /// The name, as a rule or an object has it.
    pub name: DnsName,
    /// Whether a rule uses it.
    pub wanted: bool,
    /// An Allow rule uses it.
    pub allowed: bool,
    /// A Deny rule uses it.
    pub denied: bool,
    /// It is left out because its namespaces have too many names.
    pub over_limit: bool,
    /// The namespaces with a rule for it that are at a cap, at most eight.
    #[serde(skip)]
    pub at_cap: Vec<CapView>,
    pub objects: Vec<ObjectKey>,
    /// The addresses in question, at most 1,000, each with whether an object has it.
    #[serde(skip)]
    pub addresses: Vec<(AddressFacts, bool)>,
    /// The number of addresses beyond that.
    pub more_addresses: usize,
    /// The next look-up of the subject, or of the first name under it.
    pub next_lookup: Option<Timestamp>,
    /// Look-ups of the name in a row that found no address.
    pub fruitless_lookups: u32,
    /// The names in question whose look-ups fail, at most ten.
    pub failures: Vec<FailureView>,
    /// It is in a Deny rule, and so many addresses did not fit its object: traffic to them is not
    /// blocked.
    pub left_out: u64,
    /// Failed writes of its object since the last success.
    pub failed_writes: u32,
}

impl Publisher {
    pub(crate) fn facts(&self, subject: &Subject, now: Timestamp) -> Facts {
        let mut facts = Facts {
            at: now,
            leader: self.names.leads(),
            lookups: self.names.limits().lookups,
            guarded: None,
            names: Vec::new(),
            more_names: 0,
        };
        match subject {
            Subject::Name(name) => {
                let specs = [Some(name.clone()), name.wildcard()];
                for spec in specs.into_iter().flatten() {
                    if let Some(entry) = self.names.get(&spec) {
                        let of_name = |found: &DnsName, _| spec == *name || found == name;
                        let asked = (!name.is_wildcard()).then_some(name);
                        facts
                            .names
                            .push(self.name_facts(&spec, entry, asked, MOST, now, of_name));
                    }
                }
            }
            Subject::Address(address) => {
                facts.guarded = self.guards.admit(*address).err();
                let entries = self.names.iter();
                let mut names_with_address: Vec<_> = entries
                    .filter(|(_, entry)| entry.list().has_address(*address))
                    .collect();
                names_with_address.sort_unstable_by_key(|(spec, _)| *spec);
                facts.more_names = names_with_address.len().saturating_sub(MOST);
                let names_with_address = names_with_address.into_iter().take(MOST);
                let of_spec = names_with_address.map(|(spec, entry)| {
                    self.name_facts(spec, entry, None, MOST, now, |_, ip| ip == *address)
                });
                facts.names = of_spec.collect();
            }
        }
        facts
    }

    /// `asked`: consider only this name of those under a wildcard. `most`: list at most so many
    /// addresses.
    pub(super) fn name_facts(
        &self,
        spec: &DnsName,
        entry: &Entry,
        asked: Option<&DnsName>,
        most: usize,
        now: Timestamp,
        asked_for: impl Fn(&DnsName, IpAddr) -> bool,
    ) -> NameFacts {
        let of_name = self.by_name.get(spec);
        let objects = of_name.map_or(&[][..], |it| &it.objects);
        let mut addresses = address_stats(entry.list(), entry.limits(), asked_for);
        let told: Vec<AddressFacts> = addresses.by_ref().take(most).collect();
        let more_addresses = addresses.count();
        let is_asked = |name: &DnsName| asked.is_none_or(|asked| asked == name);
        let names = std::iter::once(spec).chain(entry.list().names());
        let due = names.chain(asked).filter(|name| is_asked(name));
        let due = due.filter_map(|name| self.names.due(name)).min();
        let failing = failing_names(entry.state());
        let failing = failing.filter(|failing| is_asked(&failing.name));
        // A search of the whole status for each address would take long.
        let stored = (told.len() > FEW).then(|| {
            let stored = objects.iter();
            let stored = stored.flat_map(|object| object.status.addresses());
            stored.collect::<HashSet<_>>()
        });
        let stands = |facts: &AddressFacts| match &stored {
            Some(stored) => stored.contains(&(&facts.name, facts.ip)),
            None => {
                let mut objects = objects.iter();
                objects.any(|object| object.status.has(&facts.name, facts.ip))
            }
        };
        let told = told.into_iter().map(|facts| {
            let stands = stands(&facts);
            (facts, stands)
        });
        let told = told.collect();
        NameFacts {
            name: spec.clone(),
            wanted: entry.is_used(),
            allowed: entry.is_used() && entry.rule_use().allowed,
            denied: entry.is_used() && entry.rule_use().denied,
            over_limit: entry.is_left_out(),
            at_cap: self
                .names
                .at_cap_of(entry)
                .take(8)
                .map(|it| CapView::new(&it, &self.namespaces))
                .collect(),
            objects: objects
                .iter()
                .map(|it| it.key(self.objects.policy()))
                .collect(),
            addresses: told,
            more_addresses,
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.names.fruitless_lookups(asked.unwrap_or(spec)),
            failures: failing.take(MAX_FAILING).collect(),
            left_out: match entry.is_used() && entry.rule_use().denied {
                true => entry.evicted().addresses,
                false => 0,
            },
            failed_writes: of_name.map_or(0, |it| it.failures),
        }
    }
}

//! Details of one name or one address, for `explain`.

use std::{collections::HashSet, net::IpAddr};

use names::{Entry, NoAddress, address_facts, failing_names};
use proto::{
    api::DnsName,
    facts::{Guard, NameFacts, Reason, Subject, SubjectFacts},
};
use runtime::clock::Timestamp;

use super::{
    guards::advice,
    publisher::Publisher,
    view::{MAX_FAILING, cap_facts},
};

/// The most addresses, and the most names, that are listed; the others are counted.
const MOST: usize = 1_000;

/// As many addresses are searched in the status one by one.
const FEW: usize = 8;

impl Publisher {
    /// What is known of a subject, without its rules.
    pub(crate) fn facts(&self, subject: &Subject, now: Timestamp) -> SubjectFacts {
        let mut facts = SubjectFacts {
            lookups: self.names.limits().lookups,
            ..SubjectFacts::default()
        };
        match subject {
            Subject::Name(name) => {
                let rule_names = [Some(name.clone()), name.wildcard()];
                for rule_name in rule_names.into_iter().flatten() {
                    if let Some(entry) = self.names.get(&rule_name) {
                        let of_name = |found: &DnsName, _| rule_name == *name || found == name;
                        let asked = (!name.is_wildcard()).then_some(name);
                        let facts_of_name =
                            self.name_facts(&rule_name, entry, asked, MOST, now, of_name);
                        facts.names.push(facts_of_name.into());
                    }
                }
            }
            Subject::Address(address) => {
                facts.guard = self.guards.admit(*address).err().map(|guard| Guard {
                    name: guard.to_owned(),
                    advice: advice(guard).map(ToOwned::to_owned),
                });
                let entries = self.names.iter();
                let mut names_with_address: Vec<_> = entries
                    .filter(|(_, entry)| entry.list().has_address(*address))
                    .collect();
                names_with_address.sort_unstable_by_key(|(rule_name, _)| *rule_name);
                facts.more_names = names_with_address.len().saturating_sub(MOST);
                let names_with_address = names_with_address.into_iter().take(MOST);
                let facts_of_name = names_with_address.map(|(rule_name, entry)| {
                    let is_it = |_: &DnsName, ip| ip == *address;
                    self.name_facts(rule_name, entry, None, MOST, now, is_it)
                        .into()
                });
                facts.names = facts_of_name.collect();
            }
        }
        facts
    }

    /// Why a name in use has no address; `None` if it has one.
    pub(super) fn no_address(&self, name: &DnsName, entry: &Entry) -> Option<Reason> {
        if !entry.is_used() || entry.list().addresses() > 0 {
            return None;
        }
        let lookups = self.names.limits().lookups;
        Some(match entry.no_address() {
            Some(NoAddress::Guarded(guard)) => {
                let advice = advice(guard).map_or(String::new(), |advice| format!(" ({advice})"));
                let sentence = format!("the guard `{guard}` refuses its addresses{advice}");
                Reason::new("Guarded", sentence)
            }
            Some(NoAddress::LimitExceeded) => {
                let sentence = "it is left out: its namespaces have too many names or addresses";
                Reason::new("LimitExceeded", sentence)
            }
            _ if name.is_wildcard() => {
                Reason::new("NotAsked", "no pod asked for a name under it yet")
            }
            _ if !lookups => Reason::new(
                "NoLookups",
                "the collector does not look it up (--resolver none), and no pod asked for it yet",
            ),
            _ if !self.names.leads() => Reason::new(
                "NotLeader",
                "this replica does not lead, and only the leader looks names up",
            ),
            Some(NoAddress::Failed(failure)) => Reason::new(failure.reason(), failure.to_string()),
            Some(NoAddress::NoData) => {
                Reason::new("NoData", "the DNS servers answer without an address")
            }
            Some(NoAddress::Inconclusive) => Reason::new(
                "Inconclusive",
                "answers were cut off, or the DNS servers contradict each other",
            ),
            None => Reason::new("NotLookedUp", "it was not looked up yet"),
        })
    }

    /// `asked`: consider only this name of those under a wildcard. `most`: list at most so many
    /// addresses.
    pub(super) fn name_facts(
        &self,
        rule_name: &DnsName,
        entry: &Entry,
        asked: Option<&DnsName>,
        most: usize,
        now: Timestamp,
        is_asked_for: impl Fn(&DnsName, IpAddr) -> bool,
    ) -> NameFacts {
        let of_name = self.by_name.get(rule_name);
        let objects = of_name.map_or(&[][..], |it| &it.objects);
        let (list, limits) = (entry.list(), entry.limits());
        let count = list.count(&is_asked_for);
        // A search of the whole status for each address would take long.
        let stored = (count > FEW).then(|| {
            let stored = objects.iter();
            let stored = stored.flat_map(|object| object.status.addresses());
            stored.collect::<HashSet<_>>()
        });
        let in_object = |name: &DnsName, ip: IpAddr| match &stored {
            Some(stored) => stored.contains(&(name, ip)),
            None => objects.iter().any(|object| object.status.has(name, ip)),
        };
        let seen_where = |source| self.peers.describe(source);
        let addresses = address_facts(list, limits, is_asked_for, seen_where, in_object);
        let is_asked = |name: &DnsName| asked.is_none_or(|asked| asked == name);
        let names = std::iter::once(rule_name).chain(entry.list().names());
        let due = names.chain(asked).filter(|name| is_asked(name));
        let due = due.filter_map(|name| self.names.due(name)).min();
        let failing = failing_names(entry.state());
        let failing = failing.filter(|failing| is_asked(&failing.name));
        NameFacts {
            name: rule_name.clone(),
            wanted: entry.is_used(),
            allowed: entry.is_used() && entry.rule_use().allowed,
            denied: entry.is_used() && entry.rule_use().denied,
            over_limit: entry.is_left_out(),
            at_cap: self
                .names
                .at_cap_of(entry)
                .take(8)
                .map(|it| cap_facts(&it, &self.namespaces))
                .collect(),
            objects: objects
                .iter()
                .map(|it| it.key(self.objects.policy()).to_string())
                .collect(),
            addresses: addresses.take(most).collect(),
            more_addresses: count.saturating_sub(most),
            next_lookup: due.map(|due| due.max(now)),
            fruitless_lookups: self.names.fruitless_lookups(asked.unwrap_or(rule_name)),
            no_address: self.no_address(rule_name, entry),
            failures: failing.take(MAX_FAILING).collect(),
            left_out: entry.evicted().addresses,
            failed_writes: of_name.map_or(0, |it| it.failures),
        }
    }
}

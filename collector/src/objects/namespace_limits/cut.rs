//! Leaves out names of namespaces over their quota.

use std::collections::BTreeSet;

use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::{
    super::{leadership::Leadership, names::NameTable},
    NamespaceShares, Over, TOLD_AGAIN,
    candidates::{Candidates, TooMuch},
    charged::{Charged, Measure},
    level::level,
    unpaid,
};
use crate::{clients::Namespace, namespaces::NamespaceQuota};

/// An exceeded limit.
#[derive(Clone, Copy)]
enum Limit {
    OfNamespace(Namespace, NamespaceQuota),
    /// A limit of all namespaces together, while the namespace has more than the level.
    OfAll {
        namespace: Namespace,
        measure: Measure,
        most: usize,
        level: usize,
    },
}

impl Limit {
    /// Whether the addresses, or the measure of a limit of all, exceed the limit.
    fn has_too_much(self, charged: &Charged) -> bool {
        match self {
            Self::OfNamespace(namespace, quota) => {
                charged.of(namespace).addresses > quota.addresses
            }
            Self::OfAll {
                namespace,
                measure,
                most,
                level,
            } => charged.all.of(measure) > most && charged.part(namespace, measure) > level,
        }
    }

    fn has_too_many_names(self, charged: &Charged) -> bool {
        match self {
            Self::OfNamespace(namespace, quota) => charged.of(namespace).names > quota.names,
            Self::OfAll { .. } => false,
        }
    }

    fn namespace(self) -> Namespace {
        match self {
            Self::OfNamespace(namespace, _) | Self::OfAll { namespace, .. } => namespace,
        }
    }

    fn is_exceeded(self, charged: &Charged) -> bool {
        self.has_too_many_names(charged) || self.has_too_much(charged)
    }
}

impl NamespaceShares {
    /// Leaves out names until no limit is exceeded.
    pub(super) fn cut(
        &mut self,
        names: &mut NameTable,
        lead: &Leadership,
        charged: &mut Charged,
        now: Timestamp,
    ) {
        let over = charged.iter().filter(|(namespace, used)| {
            let quota = self.quota(*namespace);
            used.addresses > quota.addresses || used.names > quota.names
        });
        let mut over: TooMuch = over.map(|(namespace, _)| namespace).collect();
        if !over.is_empty() {
            let candidates = Candidates::new(names, &over, now);
            for namespace in BTreeSet::from_iter(over.iter().copied()) {
                let quota = self.quota(namespace);
                // A name that another namespace pays for stays. Another namespace's rule for a name
                // must not cause further names to be left out.
                charged.spare(namespace, candidates.shared(namespace), quota);
                let limit = Limit::OfNamespace(namespace, quota);
                self.cut_one(names, (&over, &candidates), charged, limit, now);
            }
        }
        if lead.leads_for(unpaid::PODS_KNOWN_AFTER, now) {
            unpaid::limit(names, charged, |it| self.quota(it).addresses, now);
        }
        for (measure, most) in [
            (Measure::Addresses, self.limits.addresses),
            (Measure::Bytes, self.limits.bytes),
        ] {
            if charged.all.of(measure) > most {
                self.cut_all(names, &mut over, charged, (measure, most), now);
            }
        }
    }

    /// Leaves names out until all namespaces together are within the limit.
    fn cut_all(
        &mut self,
        names: &mut NameTable,
        over: &mut TooMuch,
        charged: &mut Charged,
        (measure, most): (Measure, usize),
        now: Timestamp,
    ) {
        unpaid::drop_of_all(names, charged, (measure, most), now);
        // All together exceed the limit: namespaces with the most lose names down to one level.
        // Names of several namespaces may make that insufficient, so the level is lowered.
        let parts = |charged: &Charged| -> Vec<_> {
            let namespaces = charged.iter().map(|(it, _)| it);
            namespaces
                .map(|it| (charged.part(it, measure), it))
                .collect()
        };
        let used = parts(charged).into_iter().map(|(used, _)| used);
        let excess = charged.all.of(measure).saturating_sub(most);
        let mut level = level(used.collect(), excess);
        while charged.all.of(measure) > most {
            let used = parts(charged).into_iter();
            let mut largest: Vec<_> = used.filter(|(used, _)| *used > level).collect();
            largest.sort_unstable();
            over.extend(largest.iter().map(|(_, namespace)| *namespace));
            let candidates = Candidates::new(names, over, now);
            for (_, namespace) in largest.into_iter().rev() {
                let limit = Limit::OfAll {
                    namespace,
                    measure,
                    most,
                    level,
                };
                self.cut_one(names, (over, &candidates), charged, limit, now);
            }
            if level == 0 {
                break;
            }
            level /= 2;
        }
    }

    /// Leaves out candidates of a namespace while a limit is exceeded. Only namespaces in `over`
    /// use the candidates.
    fn cut_one(
        &mut self,
        names: &mut NameTable,
        (over, candidates): (&TooMuch, &Candidates),
        charged: &mut Charged,
        limit: Limit,
        now: Timestamp,
    ) {
        let namespace = limit.namespace();
        let Some(order) = self.order.get(&namespace).cloned() else {
            return;
        };
        let (mut count, mut found) = (0, 0);
        let had_too_many_names = limit.has_too_many_names(charged);
        for name in order.iter() {
            if limit.has_too_much(charged) && candidates.has_found(namespace, name) {
                // Among these, names that only namespaces over their quota pay for.
                found += charged.drop_found(names, name, now, |cost, charged| {
                    limit.has_too_much(charged)
                        && cost.payers.contains(&namespace)
                        && cost.payers.iter().all(|it| over.contains(it))
                });
            }
            if !limit.is_exceeded(charged) {
                break;
            }
            let entry = names.entries.get(name).filter(|_| candidates.has(name));
            let Some(entry) = entry.filter(|it| !it.left_out) else {
                continue;
            };
            let has_too_many_names = limit.has_too_many_names(charged);
            let own = entry.kept(now).own(entry.memory.list());
            let frees_nothing = own.all == 0 && !has_too_many_names;
            if !frees_nothing {
                self.leave_out(names, name, charged, now);
                count += 1;
            }
        }
        if count + found == 0 {
            return;
        }
        let text = self.shared.clients.name(namespace);
        let over = self.set_over(namespace);
        // Names are left out each second, which is one event for a reader of the log.
        if over.cut_at.is_none_or(|at| at + TOLD_AGAIN <= now) {
            info!(
                namespace = &*text,
                names = count,
                found,
                "names are left out: their namespace has too many addresses or names"
            );
        }
        over.is_closed |= found > 0;
        over.had_too_many_names |= had_too_many_names;
        over.cut_at = Some(now);
    }

    /// Marks the namespace as over its quota.
    pub(super) fn set_over(&mut self, namespace: Namespace) -> &mut Over {
        let quota = self.quota(namespace);
        let over = self.over.entry(namespace).or_insert(Over {
            quota,
            room_since: None,
            had_too_many_names: false,
            is_closed: false,
            cut_at: None,
            told_at: None,
        });
        (over.quota, over.room_since) = (quota, None);
        over
    }

    /// Removes all addresses of the name; its object gives the reason.
    fn leave_out(
        &mut self,
        names: &mut NameTable,
        name: &DnsName,
        charged: &mut Charged,
        now: Timestamp,
    ) {
        let Some(entry) = names.entries.get_mut(name) else {
            return;
        };
        charged.remove_entry(entry, &names.shared.clients, now);
        let own = entry.kept(now).own(entry.memory.list()).all;
        self.left_out.insert(name.clone(), own);
        entry.left_out = true;
        let gone = entry.memory.leave_out(now);
        // The name comes back when one of these has room.
        for namespace in entry.in_use.with_rule.iter() {
            self.set_over(*namespace);
        }
        names.forget_found(name, gone.into_iter().map(|(found, _)| found), now);
        names.reschedule(name);
    }
}

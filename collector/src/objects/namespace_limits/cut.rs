//! What is left out of a namespace that has too much.

use std::{cmp::Reverse, collections::BTreeSet};

use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::{
    super::{leadership::Leadership, names::NameTable},
    NamespaceShares, Over, TOLD_AGAIN,
    candidates::{Candidates, TooMuch},
    charged::{Charged, Measure},
    unpaid,
};
use crate::{clients::Namespace, namespaces::NamespaceQuota};

/// A limit that is exceeded.
#[derive(Clone, Copy)]
enum Limit {
    OfNamespace(Namespace, NamespaceQuota),
    /// Of all together, while the namespace has more than the level.
    OfAll {
        namespace: Namespace,
        measure: Measure,
        most: usize,
        level: usize,
    },
}

impl Limit {
    /// Too many addresses, or too much of what is limited for all together.
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

/// What each namespace may have at most, so that those with more lose so much in all.
fn level(mut used: Vec<usize>, excess: usize) -> usize {
    used.sort_unstable_by_key(|it| Reverse(*it));
    let next = used.iter().skip(1).copied().chain([0]);
    let mut all = 0;
    let levels = (1..).zip(used.iter().zip(next)).map(|(count, (it, next))| {
        all += it;
        let is_enough = all - count * next >= excess;
        is_enough.then(|| all.saturating_sub(excess) / count)
    });
    levels.flatten().next().unwrap_or(0)
}

impl NamespaceShares {
    /// Leaves out what is too much.
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
                // A name that another namespace pays for stays; and another's rule for a name that was left out is no reason to leave
                // others out.
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

    /// Leaves out what is too much for all together.
    fn cut_all(
        &mut self,
        names: &mut NameTable,
        over: &mut TooMuch,
        charged: &mut Charged,
        (measure, most): (Measure, usize),
        now: Timestamp,
    ) {
        unpaid::drop_of_all(names, charged, (measure, most), now);
        // All together have too much: none that has most loses more than others that have about as much. Where names are of several
        // namespaces that may not be enough.
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

    /// Leaves names of a namespace out as long as a limit is exceeded: of the candidates, which only namespaces `over` their limits have.
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
                // Of these, names that only namespaces over their limits pay for.
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
        // What is left out anew each second is one event for a reader of the log.
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

    /// The namespace has no room now.
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

    /// Nothing of the name is kept, and its object says why.
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
        // It comes back when one of them has room.
        for namespace in &entry.with_rule {
            self.set_over(*namespace);
        }
        names.forget_found(name, gone.into_iter().map(|(found, _)| found), now);
        names.reschedule(name);
    }
}

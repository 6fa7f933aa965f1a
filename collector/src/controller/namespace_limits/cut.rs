//! What is left out of a namespace that has too much.

use std::{cmp::Reverse, collections::BTreeSet};

use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::{
    super::StatusController,
    Over, TOLD_AGAIN,
    candidates::{Candidates, TooMuch},
    charged::{Charged, Cost},
};
use crate::{
    clients::Namespace, event_history::EventKind, namespaces::NamespaceQuota,
    observation::Provenance,
};

/// A limit that is exceeded.
#[derive(Clone, Copy)]
enum Limit {
    OfNamespace(Namespace, NamespaceQuota),
    /// Of all together, while the namespace has more than the second.
    OfAll(Namespace, usize, usize),
}

impl Limit {
    fn has_too_many_addresses(self, charged: &Charged) -> bool {
        match self {
            Self::OfNamespace(namespace, quota) => {
                charged.of(namespace).addresses > quota.addresses
            }
            Self::OfAll(namespace, addresses, level) => {
                charged.all > addresses && charged.of(namespace).addresses > level
            }
        }
    }

    fn has_too_many_names(self, charged: &Charged) -> bool {
        match self {
            Self::OfNamespace(namespace, quota) => charged.of(namespace).names > quota.names,
            Self::OfAll(..) => false,
        }
    }

    fn is_exceeded(self, charged: &Charged) -> bool {
        self.has_too_many_names(charged) || self.has_too_many_addresses(charged)
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

impl StatusController {
    /// Leaves out what is too much.
    pub(super) fn cut(&mut self, charged: &mut Charged, now: Timestamp) {
        let over = charged.iter().filter(|(namespace, used)| {
            let quota = self.quota(*namespace);
            used.addresses > quota.addresses || used.names > quota.names
        });
        let mut over: TooMuch = over.map(|(namespace, _)| namespace).collect();
        if !over.is_empty() {
            let candidates = self.candidates(&over, now);
            for namespace in BTreeSet::from_iter(over.iter().copied()) {
                let quota = self.quota(namespace);
                // A name that another namespace pays for stays; and another's rule for a name that was left out is no reason to leave
                // others out.
                charged.spare(namespace, candidates.shared(namespace), quota);
                let limit = Limit::OfNamespace(namespace, quota);
                self.cut_one(namespace, &over, &candidates, charged, limit, now);
            }
        }
        self.limit_unpaid(charged, now);
        let most = self.config.namespace_limits.addresses;
        if charged.all <= most {
            return;
        }
        self.drop_unpaid_of_all(charged, most, now);
        // All together have too much: none that has most loses more than others that have about as much. Where names are of several
        // namespaces that may not be enough.
        let used = charged.iter().map(|(_, used)| used.addresses);
        let mut level = level(used.collect(), charged.all.saturating_sub(most));
        while charged.all > most {
            let used = charged.iter().map(|(it, used)| (used.addresses, it));
            let mut largest: Vec<_> = used.filter(|(used, _)| *used > level).collect();
            largest.sort_unstable();
            over.extend(largest.iter().map(|(_, namespace)| *namespace));
            let candidates = self.candidates(&over, now);
            for (_, namespace) in largest.into_iter().rev() {
                let limit = Limit::OfAll(namespace, most, level);
                self.cut_one(namespace, &over, &candidates, charged, limit, now);
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
        namespace: Namespace,
        over: &TooMuch,
        candidates: &Candidates,
        charged: &mut Charged,
        limit: Limit,
        now: Timestamp,
    ) {
        let Some(order) = self.shares.order.get(&namespace).cloned() else {
            return;
        };
        let (mut names, mut found) = (0, 0);
        let had_too_many_names = limit.has_too_many_names(charged);
        for name in order.iter() {
            if limit.has_too_many_addresses(charged) && candidates.has_found(namespace, name) {
                // Of these, names that only namespaces over their limits pay for.
                found += self.drop_found(name, charged, now, |cost, charged| {
                    limit.has_too_many_addresses(charged)
                        && cost.payers.contains(&namespace)
                        && cost.payers.iter().all(|it| over.contains(it))
                });
            }
            if !limit.is_exceeded(charged) {
                break;
            }
            let entry = self.entries.get(name).filter(|_| candidates.has(name));
            let Some(entry) = entry.filter(|it| !it.left_out) else {
                continue;
            };
            let has_too_many_names = limit.has_too_many_names(charged);
            let frees_nothing = entry.memory.own(&entry.kept(now)).all == 0 && !has_too_many_names;
            if !frees_nothing {
                self.leave_out(name, charged, now);
                names += 1;
            }
        }
        if names + found == 0 {
            return;
        }
        let text = self.config.shared.clients.name(namespace);
        let over = self.set_over(namespace);
        // What is left out anew each second is one event for a reader of the log.
        if over.cut_at.is_none_or(|at| at + TOLD_AGAIN <= now) {
            info!(
                namespace = &*text,
                names, found, "names are left out: their namespace has too many addresses or names"
            );
        }
        over.is_closed |= found > 0;
        over.had_too_many_names |= had_too_many_names;
        over.cut_at = Some(now);
    }

    /// The namespace has no room now.
    pub(super) fn set_over(&mut self, namespace: Namespace) -> &mut Over {
        let quota = self.quota(namespace);
        let over = self.shares.over.entry(namespace).or_insert(Over {
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

    /// Forgets names that a wildcard found, in the order in which they leave a full wildcard, and takes from `charged` what they cost. `goes` is
    /// asked of each. Returns how many addresses went.
    pub(super) fn drop_found(
        &mut self,
        spec: &DnsName,
        charged: &mut Charged,
        now: Timestamp,
        mut goes: impl FnMut(&Cost<'_>, &Charged) -> bool,
    ) -> usize {
        let clients = self.config.shared.clients.clone();
        let Some(entry) = self.entries.get_mut(spec) else {
            return 0;
        };
        let (memory, crowd, kept) = entry.charged_parts(&clients, now);
        let gone = memory.drop_found(now, crowd, &kept, |askers, count| {
            let payers = crowd.namespaces(askers);
            let cost = Cost::found(&payers, kept.own, askers, count);
            let goes = goes(&cost, charged);
            if goes {
                charged.remove(&cost);
            }
            goes
        });
        let count = gone.len();
        self.forget_found(spec, gone.into_iter().map(|(name, _)| name), now);
        count
    }

    /// Nothing of the name is kept, and its object says why.
    fn leave_out(&mut self, name: &DnsName, charged: &mut Charged, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        charged.remove_entry(entry, &self.config.shared.clients, now);
        let own = entry.memory.own(&entry.kept(now)).all;
        self.shares.left_out.insert(name.clone(), own);
        entry.left_out = true;
        let gone = entry.memory.leave_out(now);
        // It comes back when one of them has room.
        for namespace in entry.with_rule.clone() {
            self.set_over(namespace);
        }
        self.forget_found(name, gone.into_iter().map(|(found, _)| found), now);
        self.reschedule(name);
    }

    /// These names of a name in use are not known any more.
    fn forget_found(
        &mut self,
        spec: &DnsName,
        gone: impl Iterator<Item = DnsName>,
        now: Timestamp,
    ) {
        let gone: BTreeSet<DnsName> = gone.collect();
        for name in gone {
            self.reschedule(&name);
            if name != *spec {
                self.schedule.discard(&name);
            }
            self.note(name, None, EventKind::Evicted, Provenance::STATUS, now);
        }
        self.dirty.insert(spec.clone());
    }
}

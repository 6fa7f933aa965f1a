//! Restores names of a namespace that has room again.

use std::time::Duration;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    super::names::NameTable,
    NamespaceLimits, NamespaceShares, Over,
    charged::{Charged, Cost, Usage},
};
use crate::{clients::Namespace, namespaces::NamespaceQuota, state::ADDRESS_V6_BYTES};

/// How long a namespace must have had room before its names come back.
const ROOM_FOR: Duration = Duration::from_secs(600);
const ROOM: f64 = 0.9;

fn part(limit: usize) -> usize {
    part_of(limit, ROOM)
}

fn part_of(limit: usize, part: f64) -> usize {
    (limit as f64 * part) as usize
}

impl NamespaceLimits {
    /// Whether there is room in this part of the limits of all for a name with so many addresses, or if none, for anything.
    fn have_room(&self, used: Usage, addresses: usize, part: f64) -> bool {
        used.addresses + addresses <= part_of(self.addresses, part)
            && used.bytes + addresses * ADDRESS_V6_BYTES <= part_of(self.bytes, part)
    }
}

impl Over {
    /// Whether a namespace with this usage of its quota has room for `more` addresses.
    fn has_room(&self, used: NamespaceQuota, quota: NamespaceQuota, more: usize) -> bool {
        // The number of names in rules changes only when rules do. Requiring spare room in it would
        // keep addresses out for ever.
        let names = match self.had_too_many_names {
            true => part(quota.names),
            false => quota.names,
        };
        used.addresses + more <= part(quota.addresses) && used.names < names
    }

    fn is_raised(&self, quota: NamespaceQuota) -> bool {
        quota.addresses > self.quota.addresses || quota.names > self.quota.names
    }
}

impl NamespaceShares {
    /// Restores names as far as there is room: at once if the quota was raised, otherwise after ten
    /// minutes.
    pub(super) fn take_in_again(
        &mut self,
        names: &mut NameTable,
        charged: &mut Charged,
        now: Timestamp,
    ) {
        for name in std::mem::take(&mut self.taken_over) {
            let entry = names.entries.get(&name);
            for namespace in entry.iter().flat_map(|it| it.in_use.with_rule.iter()) {
                self.set_over(*namespace);
            }
        }
        self.take_in_free(names, charged);
        for (namespace, over) in self.with_room(charged, now) {
            let quota = self.quota(namespace);
            let order = self.order.get(&namespace).cloned();
            // An administrator raised the quota, so the last tenth may be used too.
            let part_of_all = if over.is_raised(quota) { 1.0 } else { ROOM };
            let mut is_whole = true;
            for name in order.iter().flat_map(|order| order.iter().rev()) {
                let Some(had) = self.left_out.get(name).copied() else {
                    continue;
                };
                is_whole = over.has_room(charged.of(namespace), quota, had)
                    && self.limits.have_room(charged.all, had, part_of_all);
                if !is_whole {
                    break;
                }
                self.take_in(names, name, charged);
            }
            if is_whole {
                self.over.remove(&namespace);
            }
        }
    }

    /// The namespaces that have had room for long enough.
    fn with_room(&mut self, charged: &Charged, now: Timestamp) -> Vec<(Namespace, Over)> {
        let (quotas, each) = (&self.shared.quotas, self.limits.each);
        let have_all_room = self.limits.have_room(charged.all, 0, ROOM);
        let mut with_room = Vec::new();
        for (namespace, over) in &mut self.over {
            let quota = quotas.get(*namespace).unwrap_or(each);
            let is_raised = over.is_raised(quota);
            let has_room = over.has_room(charged.of(*namespace), quota, 0);
            if !has_room || (!have_all_room && !is_raised) {
                over.room_since = None;
            } else if is_raised || *over.room_since.get_or_insert(now) + ROOM_FOR <= now {
                with_room.push((*namespace, *over));
            }
        }
        with_room
    }

    /// Restores names that no rule uses any more, and names that another namespace pays for.
    fn take_in_free(&mut self, names: &mut NameTable, charged: &mut Charged) {
        let (entries, over) = (&names.entries, &self.over);
        let is_free = |name: &DnsName| {
            let entry = entries.get(name).filter(|entry| entry.is_wanted());
            entry.is_none_or(|entry| {
                !entry
                    .in_use
                    .with_rule
                    .iter()
                    .all(|it| over.contains_key(it))
            })
        };
        let left_out = self.left_out.keys();
        let free: Vec<DnsName> = left_out.filter(|it| is_free(it)).cloned().collect();
        for name in &free {
            self.take_in(names, name, charged);
        }
    }

    fn take_in(&mut self, names: &mut NameTable, name: &DnsName, charged: &mut Charged) {
        let had = self.left_out.remove(name).unwrap_or(0);
        let Some(entry) = names.entries.get_mut(name) else {
            return;
        };
        entry.left_out = false;
        entry.memory.take_in();
        charged.add(&Cost::in_rules(&entry.in_use.with_rule, &[], had.into()));
        names.reschedule(name);
        names.dirty.insert(name.clone());
    }
}

//! What is written when: addresses at once, times when it suits.

use std::{collections::VecDeque, time::Duration};

use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{
    ManageObjects, StatusController,
    budget::WriteCost,
    entry::{Entry, Object, Unwritten},
};
use crate::{clients::Namespace, publish::Write, state::Stored};

/// What is to be written of an object that costs more is only found out when it may be written.
const DEAR: usize = 100_000;

/// What an object that comes and goes takes in the history of etcd, without its addresses.
const CREATION: usize = 3_000;

/// An object that is full is written this often at most.
const FULL_INTERVAL: Duration = Duration::from_secs(1);

/// An object stays for so long with a status that tells of the end of its last rule: whoever reads a folder without notifications
/// looks once a second.
const NO_RULE_FOR: Duration = Duration::from_secs(2);

/// As many writes of addresses and of objects are under way at most: enough to keep a store busy. What waits is not computed
/// yet, so it is written as it is when its turn comes.
const MAX_IN_FLIGHT: usize = 64;

/// How many writes of addresses and of objects may be under way. A store that refuses more than so many at once asks for
/// longer and longer pauses, if it is asked for as many again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct InFlightLimit(f64);

impl Default for InFlightLimit {
    fn default() -> Self {
        Self(MAX_IN_FLIGHT as f64)
    }
}

impl InFlightLimit {
    /// A write was carried out: one more may be under way after as many as may be now.
    pub(super) fn grow(&mut self) {
        self.0 = (self.0 + self.0.recip()).min(MAX_IN_FLIGHT as f64);
    }

    /// A write was one too many.
    pub(super) fn shrink(&mut self) {
        self.0 = (self.0 - 1.0).max(1.0);
    }

    fn size(self) -> usize {
        self.0 as usize
    }
}

/// A write of nothing but times that may be done now.
struct Refresh {
    nearest: Timestamp,
    spec: DnsName,
    bytes: usize,
    payers: Vec<Namespace>,
    write: Write,
}

impl StatusController {
    /// The writes to start now: at most one for each object at a time, addresses before objects that are to be made.
    pub fn writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut refreshes = Vec::new();
        self.share(now);
        if self.paused_until > Some(now) {
            return writes;
        }
        self.paused_until = None;
        let most = match self.leader {
            true => self.window.size(),
            false => self.standby.at_once(self.window.size(), now),
        };
        while self.in_flight.len() < most
            && let Some(spec) = self
                .dirty
                .pop(|spec| self.entries.get(spec).map(|it| &**it))
        {
            let before = writes.len();
            let again = self.writes_of(&spec, now, &mut writes, &mut refreshes);
            // What was evicted for it makes the name dirty again, which shall start no second write.
            let begun = writes.iter().skip(before).map(Write::key);
            self.in_flight
                .extend(begun.map(|key| (key, VecDeque::new())));
            self.wake(&spec, again, now);
        }
        // In turns of namespaces, so that thousands of names of one hold up no other's.
        refreshes.sort_by_cached_key(|it| {
            let (_, last) = self.budget.last_times(&it.payers);
            (last, it.nearest, it.spec.clone())
        });
        let mut waiting = 0;
        for refresh in refreshes {
            let Refresh {
                spec,
                bytes,
                payers,
                write,
                ..
            } = refresh;
            // What was evicted for it made the name dirty again: it is written already.
            if self.in_flight.contains_key(&write.key()) {
                continue;
            }
            let cost = WriteCost {
                payers: &payers,
                bytes,
                since: now,
            };
            match self.budget.take_times(&cost, waiting, now) {
                Ok(()) => {
                    self.in_flight.insert(write.key(), VecDeque::new());
                    writes.push(write);
                }
                Err(later) => {
                    waiting += 1;
                    let wake = self.entries.get(&spec).and_then(|entry| entry.wake);
                    self.wake(&spec, wake.into_iter().chain([later]).min(), now);
                }
            }
        }
        writes
    }

    /// Returns when there may be something to write, if nothing is learned until then.
    fn writes_of(
        &mut self,
        spec: &DnsName,
        now: Timestamp,
        writes: &mut Vec<Write>,
        refreshes: &mut Vec<Refresh>,
    ) -> Option<Timestamp> {
        let entry = self.entries.get_mut(spec)?;
        let wanted = entry.wanted;
        if !wanted && entry.objects.is_empty() && !entry.creating {
            if let Some(entry) = self.entries.remove(spec) {
                self.index.remove(spec);
                self.index_changed = true;
                entry.memory.end();
                self.remember(&entry.memory, now);
                for name in entry.memory.names().chain([spec]) {
                    self.reschedule(name);
                }
            }
            return None;
        }
        if entry.retry_at > now {
            return Some(entry.retry_at);
        }
        if !self.leader {
            return self.write_additions(spec, now, writes);
        }
        let is_full = entry.memory.is_full(&entry.limits);
        let mut objects = entry.objects.iter();
        if self.ending || objects.any(|object| may_be_written(object, is_full) <= now) {
            self.enforce(spec, now);
        }
        let entry = self.entries.get_mut(spec)?;
        let mut again: Vec<Timestamp> = Vec::new();
        let before = writes.len();
        let manage = self.objects_in_sync && self.config.manage_objects != ManageObjects::Never;
        if manage && wanted && entry.objects.is_empty() && !entry.creating {
            let create_at = match self.config.manage_objects {
                ManageObjects::Auto => entry.missing_since + self.config.create_after,
                _ => now,
            };
            let creation = WriteCost {
                payers: &entry.with_rule,
                bytes: CREATION,
                since: entry.missing_since,
            };
            if create_at > now {
                again.push(create_at);
            } else if let Err(later) = self.budget.take(&creation, &mut entry.turn, now) {
                again.push(later);
            } else {
                entry.creating = true;
                let object = entry.new_object(&self.config.namespace);
                writes.push(Write::Create(Box::new(object)));
            }
        }
        let unused = manage && self.wanted_in_sync && entry.released;
        let mut waiting = false;
        let namespace = &self.config.namespace;
        let (payers, is_turn) = (entry.payers(), entry.has_turn());
        let cost = WriteCost {
            payers: &payers,
            bytes: entry.memory.size(),
            since: entry.unwritten.as_ref().map_or(now, |it| it.since),
        };
        let Entry {
            objects,
            memory,
            limits,
            unwritten,
            turn,
            ..
        } = &mut **entry;
        for object in objects.iter_mut() {
            let key = ObjectKey {
                namespace: namespace.clone(),
                name: object.name.as_ref().to_owned(),
            };
            if self.in_flight.contains_key(&key) {
                waiting = true;
                continue;
            }
            if unused && object.is_ours {
                match object.no_rule_since.map(|since| since + NO_RULE_FOR) {
                    Some(at) if at <= now => writes.push(object.delete(key)),
                    Some(at) => again.push(at),
                    None => {
                        let status = Stored::no_rule(spec, now).status();
                        writes.push(object.write(namespace, spec, status));
                        *unwritten = None;
                    }
                }
                continue;
            }
            // It is taken back if there is a rule again.
            if object.no_rule_since.is_some() && !wanted {
                continue;
            }
            let is_dear = object.cost > DEAR && !self.ending;
            if is_dear
                && unwritten.is_some()
                && *turn <= now
                && let Err(later) = self.budget.may_take(&cost, is_turn, now)
            {
                *turn = later;
            }
            let paid = may_be_written(object, memory.is_full(limits)).max(*turn);
            if paid > now && is_dear {
                waiting |= unwritten.is_some();
                again.push(paid);
                continue;
            }
            let Some(change) = memory.render(&object.status, now) else {
                continue;
            };
            let urgent = change.is_urgent();
            let at = match change.nearest.filter(|_| self.foreign_gc_detected) {
                _ if urgent => paid,
                // Another writer removes addresses once the stored times are over.
                Some(over) => paid.max(over),
                None => paid.max(object.written + self.config.times_interval),
            };
            if at > now && !(self.ending && urgent) {
                waiting |= urgent;
                again.push(at);
                continue;
            }
            // What others found leaves a wildcard, too.
            let only_leaves = unwritten.is_none() && spec.is_wildcard() && change.added == 0;
            let cost = match only_leaves {
                true => WriteCost {
                    payers: &[],
                    ..cost
                },
                false => cost,
            };
            if urgent
                && !self.ending
                && let Err(later) = self.budget.take(&cost, turn, now)
            {
                waiting = true;
                unwritten.get_or_insert_with(|| {
                    Box::new(Unwritten {
                        is_without_rule: only_leaves,
                        ..Unwritten::since(now)
                    })
                });
                again.push(later);
                continue;
            }
            *turn = Timestamp::default();
            let write = object.write(namespace, spec, change.status());
            if urgent {
                writes.push(write);
            } else {
                refreshes.push(Refresh {
                    nearest: change.nearest.unwrap_or(now),
                    spec: spec.clone(),
                    bytes: cost.bytes,
                    payers: payers.clone(),
                    write,
                });
            }
        }
        if writes.len() == before && !waiting {
            // What was learned needs no write.
            (entry.unwritten, entry.turn) = (None, Timestamp::default());
        }
        again.into_iter().min()
    }

    /// Sets when the name is looked at again of itself: when something is to be removed, and then.
    fn wake(&mut self, spec: &DnsName, again: Option<Timestamp>, now: Timestamp) {
        let removes = self.removes();
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let removal = match removes {
            true => entry.memory.next_removal(&entry.limits),
            false => None,
        };
        // Never in the past, or looking would never end.
        let wake = removal
            .into_iter()
            .chain(again)
            .min()
            .map(|at| at.max(now + Duration::from_millis(1)));
        if wake == entry.wake {
            return;
        }
        if let Some(old) = entry.wake.take() {
            self.wakes.remove(&(old, spec.clone()));
        }
        entry.wake = wake;
        self.wakes.extend(wake.map(|at| (at, spec.clone())));
    }
}

/// When the object may be written again.
fn may_be_written(object: &Object, is_full: bool) -> Timestamp {
    match is_full {
        true => object.spaced().max(object.written + FULL_INTERVAL),
        false => object.spaced(),
    }
}

#[cfg(test)]
mod tests;

//! What is written when: addresses at once, times when it suits.

use std::{collections::VecDeque, time::Duration};

use proto::api::{DnsName, DnsNameResolver};
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{Owner, entry::Entry};
use crate::{args::ManageObjects, publish::Write, state::Change};

/// A replica that does not lead writes the times that it alone knows this long before the stored ones run out.
const NEAR: Duration = Duration::from_secs(10);

/// Writes of addresses of one object are spaced by its size: a second for each of so many bytes.
const BYTES_A_SECOND: f64 = 1e6;

/// As many writes of addresses and of objects are under way at most: enough to keep a store busy. What waits is not computed
/// yet, so it is written as it is when its turn comes.
const MAX_IN_FLIGHT: usize = 64;

/// A write of nothing but times that may be done now.
struct Refresh {
    nearest: Timestamp,
    spec: DnsName,
    object: Box<DnsNameResolver>,
}

impl Owner {
    /// The writes to start now: at most one for each object at a time, addresses before objects that are to be made.
    pub fn writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut refreshes = Vec::new();
        let room = MAX_IN_FLIGHT.saturating_sub(self.in_flight.len());
        while writes.len() < room
            && let Some(spec) = self.next_dirty()
        {
            self.writes_of(&spec, now, &mut writes, &mut refreshes);
            self.wake(&spec, now);
        }
        refreshes.sort_by(|one, other| (one.nearest, &one.spec).cmp(&(other.nearest, &other.spec)));
        for Refresh { spec, object, .. } in refreshes {
            match self.budget.take(size(&object), now) {
                Ok(()) => writes.push(Write::Status(object)),
                Err(later) => {
                    if let Some(entry) = self.entries.get_mut(&spec) {
                        entry.look_again(later);
                    }
                    self.wake(&spec, now);
                }
            }
        }
        for write in &writes {
            self.in_flight.insert(write.key(), VecDeque::new());
        }
        writes
    }

    /// The next name to look at. What is there already goes before what is to be made.
    fn next_dirty(&mut self) -> Option<DnsName> {
        while let Some(spec) = self.dirty.pop() {
            let entry = self.entries.get(&spec);
            if entry.is_some_and(|entry| entry.objects.is_empty()) {
                self.unmade.insert(spec);
            } else {
                return Some(spec);
            }
        }
        self.unmade.pop()
    }

    fn writes_of(
        &mut self,
        spec: &DnsName,
        now: Timestamp,
        writes: &mut Vec<Write>,
        refreshes: &mut Vec<Refresh>,
    ) {
        let wanted = self.wanted.names.contains_key(spec);
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        entry.look_again_at = None;
        if !wanted && entry.objects.is_empty() && !entry.creating {
            if let Some(Entry { memory, .. }) = self.entries.remove(spec) {
                self.names_changed = true;
                for name in memory.names().chain([spec]) {
                    self.reschedule(name);
                }
            }
            return;
        }
        if entry.retry_at > now {
            entry.look_again(entry.retry_at);
            return;
        }
        let before = writes.len();
        let manage = self.leader
            && self.objects_in_sync
            && self.config.manage_objects != ManageObjects::Never;
        if manage && wanted && entry.objects.is_empty() && !entry.creating {
            let create_at = match self.config.manage_objects {
                ManageObjects::Auto => entry.missing_since + self.config.create_after,
                _ => now,
            };
            if create_at <= now {
                entry.creating = true;
                writes.push(Write::Create(Box::new(
                    entry.object(&self.config.namespace),
                )));
            } else {
                entry.look_again(create_at);
            }
        }
        let unused = manage && self.wanted.in_sync && !wanted;
        let mut waiting = false;
        let keys: Vec<ObjectKey> = entry.objects.keys().cloned().collect();
        for key in keys {
            let Some(object) = entry.objects.get(&key) else {
                continue;
            };
            if self.in_flight.contains_key(&key) {
                waiting = true;
                continue;
            }
            if unused && object.is_ours() {
                writes.push(object.delete(&key));
                continue;
            }
            let stored = object.stored.status.clone().unwrap_or_default();
            let Some(change) = entry.memory.render(&stored, now) else {
                continue;
            };
            let has_news = change.added + change.removed > 0 || change.nearest.is_some();
            if !self.leader && !has_news {
                // Which names are degraded is for who leads to say, or replicas that saw different things would never agree.
                continue;
            }
            let urgent = change.is_urgent();
            let nearest = change.nearest.unwrap_or(now);
            let at = due(
                &change,
                object.written,
                object.bytes,
                self.leader,
                self.config.times_interval,
            );
            if at > now && !(self.ending && urgent) {
                waiting |= urgent;
                entry.look_again(at);
                continue;
            }
            let mut new = Box::new(object.stored.clone());
            new.status = Some(change.status);
            if urgent {
                writes.push(Write::Status(new));
            } else {
                refreshes.push(Refresh {
                    nearest,
                    spec: spec.clone(),
                    object: new,
                });
            }
        }
        if writes.len() == before && !waiting {
            // What was learned needs no write.
            entry.unwritten_since = None;
        }
    }

    /// Sets when the name is looked at again of itself.
    pub(super) fn wake(&mut self, spec: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let removal = match self.leader {
            true => entry.memory.next_removal(&entry.limits),
            false => None,
        };
        // Never in the past, or looking would never end.
        let wake = removal
            .into_iter()
            .chain(entry.look_again_at)
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

/// When a change may be written: one of addresses, or of `Degraded`, as soon as the last write of the object has been paid for
/// by its size; one of nothing but times in its turn, or for a replica that does not lead just before the leader could act on
/// the old ones.
fn due(
    change: &Change,
    written: Timestamp,
    bytes: usize,
    leader: bool,
    interval: Duration,
) -> Timestamp {
    let spaced = written + Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND);
    if change.is_urgent() {
        return spaced;
    }
    let turn = written + interval;
    match change.nearest {
        Some(nearest) if !leader => turn.min(nearest.before(NEAR)).max(spaced),
        _ => turn.max(spaced),
    }
}

/// What an object costs the API server, roughly: its status, and as much again in `managedFields` twice over.
pub(super) fn size(object: &DnsNameResolver) -> usize {
    let status = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    status
        .map(|name| 600 + 500 * name.resolved_addresses.len())
        .sum::<usize>()
        + 1_000
}

#[cfg(test)]
mod tests;

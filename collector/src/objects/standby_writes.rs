//! The writes of a standby: addresses of answers to clients that the leader has not written in
//! time.

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    additions::{MOST, Made, WaitingAddition, count_refused, was_made},
    budget::WriteCost,
    entry::Entry,
    stored_objects::StoredObjects,
    writes::WritePlan,
};

/// No address is added to an object that uses this part of a limit.
const FULL: f64 = 0.9;

impl WritePlan<'_> {
    /// Adds the addresses that the leader had time for. Returns when there may be more.
    pub(super) fn additions_of(&mut self, spec: &DnsName) -> Option<Timestamp> {
        let now = self.now;
        let StoredObjects {
            policy,
            in_flight,
            budget,
            standby,
            ..
        } = &mut *self.objects;
        let (wait, not_before) = (standby.wait(now), standby.not_before);
        let Entry {
            memory,
            additions,
            objects,
            in_use,
            writes: state,
            ..
        } = &mut **self.names.entries.get_mut(spec)?;
        let known = additions.as_deref_mut()?;
        known.forget_past(now);
        if known.is_empty() {
            *additions = None;
            return None;
        }
        if not_before > now {
            return Some(not_before);
        }
        let is_due = |it: &&WaitingAddition| it.since + wait <= now;
        // Written with an address that is due. Alone it would have to wait for the end of that write.
        let goes_along = |it: &&WaitingAddition| it.since + wait / 2 <= now;
        let mut again: Vec<Timestamp> = Vec::new();
        let later = known.waiting.iter().filter(|it| !is_due(it));
        again.extend(later.map(|it| it.since + wait));
        let guards = &self.names.guards;
        let mut is_full = false;
        for object in objects.iter() {
            // Skips objects without rules, names left out, and objects with a write in flight,
            // which are checked again after it.
            if object.no_rule_since.is_some()
                || object.status.is_over_limit(spec)
                || in_flight.contains_key(&object.key(policy))
            {
                continue;
            }
            let is_missing = |it: &&WaitingAddition| {
                let ip = it.addition.ip;
                !object.status.has_address(ip) && guards.admit(ip).is_ok()
            };
            let missing = known.waiting.iter().filter(is_missing);
            if !missing.clone().any(|it| is_due(&it)) {
                continue;
            }
            let missing: Vec<&WaitingAddition> = missing.filter(goes_along).collect();
            // Skips an object that lost all its addresses: a single one would close the others.
            if object.status.count().1 == 0 && known.lacks_some_of(memory, now) {
                continue;
            }
            if object.spaced() > now {
                again.push(object.spaced());
                continue;
            }
            let cost = WriteCost {
                payers: &in_use.with_rule,
                bytes: memory.size().bytes(),
                since: missing.iter().map(|it| it.since).min().unwrap_or(now),
            };
            if let Err(later) = budget.take(&cost, &mut state.turn, now) {
                again.push(later);
                continue;
            }
            let additions = missing.iter().map(|it| &it.addition);
            let status = &object.status;
            let (next, added) = status.with_additions(spec, additions, &in_use.limits, FULL, now);
            is_full |= added < missing.len();
            if added == 0 {
                continue;
            }
            for WaitingAddition {
                addition, client, ..
            } in missing.into_iter().take(added)
            {
                if known.made.len() < MOST {
                    known.made.push(Made {
                        name: addition.name.clone(),
                        ip: addition.ip,
                        client: *client,
                        at: now,
                        // By the times of the status, as the leader counts, which may be a moment
                        // ahead.
                        until: addition.stored_expiry() + in_use.limits.grace,
                        stood: false,
                    });
                }
            }
            counter!("egress_collector_standby_additions_total").increment(added as u64);
            self.writes.push(object.write(policy, spec, next.status()));
        }
        if is_full {
            let before = known.waiting.len();
            let made = &known.made;
            known
                .waiting
                .retain(|it| !goes_along(&it) || was_made(made, &it.addition));
            count_refused("full", before - known.waiting.len());
        }
        again.into_iter().min()
    }
}

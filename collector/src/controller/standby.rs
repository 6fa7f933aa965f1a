//! What a collector writes that does not lead: an address that a client was told and that the leader has not written in time.
//!
//! A standby hears the same answers as the leader. It writes what the leader missed (it is dead, cut off, or does not hear a DNS
//! server), and never anything that it only remembers. The leader knows more and may leave an address out, for a limit, a guard
//! or a budget: what the leader takes out again a standby does not add for an hour.

use std::{net::IpAddr, time::Duration};

use metrics::counter;
use proto::api::DnsName;
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{
    StatusController,
    additions::{Additions, MOST, Made, Refused, Waiting, leaves_names_out, was_made},
    budget::WriteCost,
    entry::{Entry, Object},
};
use crate::{
    observation::{Observation, Provenance},
    publish::Write,
    state::Addition,
};

/// How long the leader has to write an address.
const WAIT: Duration = Duration::from_secs(2);

/// Each standby waits for a part of this longer, so that two do not write at once.
pub(super) const SPREAD: Duration = Duration::from_millis(100);

/// An address that comes within this time may be the work of another standby. If that one ends, this one shall not be later.
const BY_STANDBY: Duration = Duration::from_millis(2_500);

/// While statuses come late each standby waits for longer, one after another, but no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// For how long a late status counts, unless one comes in time.
const LATE_FOR: Duration = Duration::from_secs(60);

/// As many writes of a standby are under way at most before it knows that statuses come late.
const MOST_AT_ONCE: usize = 8;

/// What the leader took out is not added again for so long.
const REFUSED_FOR: Duration = Duration::from_secs(3600);

/// Nothing is added to an object that uses so much of a limit.
const FULL: f64 = 0.9;

/// How late statuses are, so that a slow API server is not asked for the same by all.
#[derive(Debug)]
pub(super) struct Standby {
    pub(super) spread: Duration,
    /// How many collectors write before this one while statuses come late.
    rank: u32,
    latest: Duration,
    latest_at: Timestamp,
    /// After a write that failed nothing is written before then.
    not_before: Timestamp,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            spread: SPREAD.mul_f64(fastrand::f64()),
            rank: 0,
            latest: Duration::ZERO,
            latest_at: Timestamp::default(),
            not_before: Timestamp::default(),
        }
    }
}

impl Standby {
    /// Statuses come in time, or the clock was set.
    pub(super) fn reset(&mut self) {
        *self = Self {
            spread: self.spread,
            rank: self.rank,
            ..Self::default()
        };
    }

    /// For how long an address must be missing.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        let is_late = self.latest_at + LATE_FOR > now;
        let late = match is_late {
            true if self.latest < BY_STANDBY => self.latest,
            true => self.latest.saturating_mul(2 * (1 + self.rank)),
            false => WAIT,
        };
        WAIT.max(late).min(LONGEST_WAIT) + self.spread
    }

    /// How many writes may be under way, of so many: after one that failed no more than one, and few as long as statuses came in time, for
    /// an API server may have become slow since.
    pub(super) fn at_once(&self, most: usize, now: Timestamp) -> usize {
        if self.not_before > Timestamp::default() {
            1
        } else if self.latest_at + LATE_FOR > now {
            most
        } else {
            most.min(MOST_AT_ONCE)
        }
    }

    /// A status came so late. Returns whether that ends a time of late ones: a leader that was held up wrote late, and the API server is
    /// quick.
    fn came_after(&mut self, late: Duration, now: Timestamp) -> bool {
        if late <= WAIT {
            let were_late = self.latest > WAIT;
            self.reset();
            return were_late;
        }
        if late >= self.latest || self.latest_at + LATE_FOR <= now {
            (self.latest, self.latest_at) = (late, now);
        }
        false
    }

    /// A write failed. Others that were under way with it say the same.
    fn failed(&mut self, now: Timestamp) {
        if self.not_before <= now {
            (self.latest, self.latest_at) = (self.wait(now).max(BY_STANDBY), now);
            self.not_before = now + self.wait(now);
        }
    }
}

fn all_have(objects: &[Object], ip: IpAddr) -> bool {
    objects.iter().all(|object| object.status.has_address(ip))
}

impl StatusController {
    /// How many of the other collectors come before this one.
    pub fn set_rank(&mut self, rank: usize) {
        self.standby.rank = u32::try_from(rank).unwrap_or(u32::MAX / 4);
    }

    /// Notes what a client was told and the status lacks.
    pub(super) fn compare_with_status(&mut self, spec: &DnsName, observation: &Observation) {
        let Some(client) = observation.client else {
            return;
        };
        if observation.source == Provenance::REMEMBERED {
            return;
        }
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        for (ip, ttl) in &observation.addresses {
            if all_have(&entry.objects, *ip) {
                continue;
            }
            let additions = entry.additions.get_or_insert_default();
            if additions.is_refused(spec, &observation.name, *ip, client, observation.at) {
                continue;
            }
            let addition = Addition {
                name: observation.name.clone(),
                ip: *ip,
                ttl: entry.limits.clamp(*ttl),
                looked_up: observation.given.min(observation.at),
            };
            let mut waiting = additions.waiting.iter_mut();
            if let Some(known) = waiting.find(|it| it.addition.is_of(&addition.name, *ip)) {
                known.addition = addition;
            } else if additions.waiting.len() < MOST {
                let since = addition.looked_up;
                additions.waiting.push(Waiting {
                    addition,
                    client,
                    since,
                });
            } else {
                count("too_many", 1);
            }
            self.dirty.insert(spec.clone());
        }
    }

    /// The status of an object of the name is another one.
    pub(super) fn follow_status(&mut self, spec: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let Entry {
            additions: Some(additions),
            objects,
            ..
        } = &mut **entry
        else {
            return;
        };
        let mut late: Option<Duration> = None;
        let mut came = |since| late = late.into_iter().chain([now.since(since)]).min();
        let Additions {
            waiting,
            made,
            refused,
        } = &mut **additions;
        let before = refused.len();
        waiting.retain(|waiting| {
            let Waiting {
                addition, since, ..
            } = waiting;
            let is_there = all_have(objects, addition.ip);
            if is_there && !was_made(made, addition) {
                came(*since);
            }
            !is_there
        });
        made.retain_mut(|made| {
            let is_there = all_have(objects, made.ip);
            let was_taken_out = made.stood && !is_there && now < made.until;
            if is_there && !made.stood {
                came(made.at);
            }
            made.stood |= is_there;
            if was_taken_out && refused.len() < MOST {
                count("taken_out", 1);
                let mut objects = objects.iter();
                let name_stays =
                    made.name == *spec || objects.any(|it| it.status.has_name(&made.name));
                let ip = name_stays.then_some(made.ip);
                if !refused.iter().any(|it| it.name == made.name && it.ip == ip) {
                    refused.push(Refused {
                        name: made.name.clone(),
                        ip,
                        client: made.client,
                        until: now + REFUSED_FOR,
                    });
                }
            }
            !was_taken_out
        });
        if refused.len() > before {
            waiting.retain(|it| {
                it.addition.name == *spec || !leaves_names_out(refused, spec, it.client, now)
            });
        }
        if late.is_some_and(|late| self.standby.came_after(late, now)) {
            let waits = |entry: &Entry| entry.additions.is_some();
            let waiting = self.entries.iter().filter(|(_, entry)| waits(entry));
            self.dirty.extend(waiting.map(|(spec, _)| spec.clone()));
        }
    }

    /// Adds what the leader had time for. Returns when there may be more.
    pub(super) fn write_additions(
        &mut self,
        spec: &DnsName,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> Option<Timestamp> {
        let (wait, not_before) = (self.standby.wait(now), self.standby.not_before);
        let entry = self.entries.get_mut(spec)?;
        let Entry {
            memory,
            additions,
            objects,
            limits,
            with_rule,
            turn,
            ..
        } = &mut **entry;
        let known = additions.as_deref_mut()?;
        known.forget_past(now);
        if known.is_empty() {
            *additions = None;
            return None;
        }
        if not_before > now {
            return Some(not_before);
        }
        let is_due = |it: &&Waiting| it.since + wait <= now;
        let mut again: Vec<Timestamp> = Vec::new();
        let later = known.waiting.iter().filter(|it| !is_due(it));
        again.extend(later.map(|it| it.since + wait));
        let guards = &self.config.guards;
        let mut is_full = false;
        for object in objects.iter() {
            let key = ObjectKey {
                namespace: self.config.namespace.clone(),
                name: object.name.as_ref().to_owned(),
            };
            // What tells of the end of its last rule gets nothing, nor what is left out. What is written now is looked at again afterwards.
            if object.no_rule_since.is_some()
                || object.status.is_over_limit(spec)
                || self.in_flight.contains_key(&key)
            {
                continue;
            }
            let is_missing = |it: &&Waiting| {
                let ip = it.addition.ip;
                !object.status.has_address(ip) && guards.admit(ip).is_ok()
            };
            let due = known.waiting.iter().filter(is_due);
            let missing: Vec<&Waiting> = due.filter(is_missing).collect();
            if missing.is_empty() {
                continue;
            }
            // It lost what it had: one address alone would close the others.
            if object.status.count().1 == 0 && known.lacks_some_of(memory, now) {
                continue;
            }
            if object.spaced() > now {
                again.push(object.spaced());
                continue;
            }
            let cost = WriteCost {
                payers: with_rule,
                bytes: memory.size(),
                since: missing.iter().map(|it| it.since).min().unwrap_or(now),
            };
            if let Err(later) = self.budget.take(&cost, turn, now) {
                again.push(later);
                continue;
            }
            let additions = missing.iter().map(|it| &it.addition);
            let (next, added) = object.status.with_additions(additions, limits, FULL, now);
            is_full |= added < missing.len();
            if added == 0 {
                continue;
            }
            for Waiting {
                addition, client, ..
            } in missing.into_iter().take(added)
            {
                if known.made.len() < MOST {
                    known.made.push(Made {
                        name: addition.name.clone(),
                        ip: addition.ip,
                        client: *client,
                        at: now,
                        // As the status tells the leader, which may be a moment ahead.
                        until: addition.stored_expiry() + limits.grace,
                        stood: false,
                    });
                }
            }
            counter!("collector_standby_additions_total").increment(added as u64);
            writes.push(object.write(&self.config.namespace, spec, next.status()));
        }
        if is_full {
            let before = known.waiting.len();
            let made = &known.made;
            known
                .waiting
                .retain(|it| !is_due(&it) || was_made(made, &it.addition));
            count("full", before - known.waiting.len());
        }
        again.into_iter().min()
    }

    /// A write did not come through: those of the leader may be as slow.
    pub(super) fn write_failed(&mut self, now: Timestamp) {
        self.standby.failed(now);
    }
}

fn count(reason: &'static str, times: usize) {
    counter!("collector_standby_additions_refused_total", "reason" => reason)
        .increment(times as u64);
}

//! What came of the writes: what the store has now, or when to try again.

use std::time::Duration;

use metrics::histogram;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{StatusController, objects::Writer, schedule::spread};
use crate::publish::{Outcome, Write};

/// The wait after a first write that failed; it doubles six times, to 6.4 s.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// The store is left alone for no longer than this, whatever it asks for.
const MAX_ASKED: Duration = Duration::from_secs(60);

impl StatusController {
    /// Takes in what came of a write.
    pub fn written(&mut self, key: &ObjectKey, write: &Write, outcome: Outcome, now: Timestamp) {
        let later = self.in_flight.remove(key).unwrap_or_default();
        if matches!(outcome, Outcome::Failed(_)) {
            self.write_failed(now);
        }
        match outcome {
            Outcome::Stored(object) => {
                self.window.grow();
                let of_status = matches!(write, Write::Status(_));
                if of_status {
                    self.record_lag(&object, now);
                }
                self.stored(key, &object, Writer::This, now);
                if let Some(object) = self.object_mut(key).filter(|_| of_status) {
                    object.was_written(now);
                }
            }
            Outcome::Stale(object) => self.taken(key, write, *object, now),
            // What stood in its place has gone again, or there is no such namespace.
            Outcome::Gone if matches!(write, Write::Create(_)) => {
                self.failed(key, write, None, now);
            }
            Outcome::Gone => self.remove(key, now),
            Outcome::TooLarge => self.too_large(key, write, now),
            Outcome::Refused => self.failed(key, write, None, now),
            Outcome::Failed(asked) => self.failed(key, write, asked, now),
        }
        for event in later {
            self.event(event, now);
        }
    }

    fn stored(
        &mut self,
        key: &ObjectKey,
        object: &DnsNameResolver,
        writer: Writer,
        now: Timestamp,
    ) {
        if let Some(entry) = self.entry_mut(&object.spec.name) {
            entry.creating = false;
            entry.failures = 0;
            entry.retry_at = Timestamp::default();
        }
        self.apply(key.clone(), object, writer, now);
    }

    /// Somebody else's object stands there: one of the same name is used, one of another name has taken the key by chance.
    fn taken(&mut self, key: &ObjectKey, write: &Write, object: DnsNameResolver, now: Timestamp) {
        if let Write::Create(wanted) = write
            && wanted.spec.name != object.spec.name
            && let Some(entry) = self.entry_mut(&wanted.spec.name)
        {
            entry.creating = false;
            entry.collisions += 1;
            self.dirty.extend(DnsName::parse(&wanted.spec.name));
        }
        self.stored(key, &object, Writer::Other, now);
    }

    /// The store takes no object of this size: less of it is tried in a moment.
    fn too_large(&mut self, key: &ObjectKey, write: &Write, now: Timestamp) {
        if let Some(spec) = self.objects.get(&*key.name).cloned()
            && let Some(entry) = self.entries.get_mut(&spec)
            && self.leader
            // What tells of the end of its rules has no address that could be left out.
            && !entry.released
        {
            let (memory, limits, crowd) = entry.parts(&self.config.shared.clients);
            let learned = memory.shrink(now, limits, crowd);
            self.learned(&spec, learned, now);
        }
        self.failed(key, write, None, now);
    }

    /// Puts the next write off: twice as long each time, and as long as the store asks for. That it asks to be left alone
    /// holds for every write.
    fn failed(
        &mut self,
        key: &ObjectKey,
        write: &Write,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) {
        let asked = retry_after.map(|asked| asked.min(MAX_ASKED));
        if let Some(asked) = asked {
            self.paused_until = self.paused_until.max(Some(now + asked));
            self.window.shrink();
        }
        let spec = match write {
            Write::Create(object) => DnsName::parse(&object.spec.name).ok(),
            _ => self.objects.get(&*key.name).cloned(),
        };
        let Some(spec) = spec else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&spec) {
            entry.creating = false;
            entry.failures = entry.failures.saturating_add(1);
            let half = FIRST_BACKOFF * 2_u32.pow(entry.failures.min(7) - 1) / 2;
            let backoff = half + spread(&spec, now, half);
            // Not all at the same moment.
            let asked = asked.map(|asked| asked + spread(&spec, now, asked / 4));
            entry.retry_at = now + backoff.max(asked.unwrap_or_default());
        }
        self.dirty.insert(spec);
    }

    fn record_lag(&mut self, object: &DnsNameResolver, now: Timestamp) {
        let entry = self.entry_mut(&object.spec.name);
        if let Some(unwritten) = entry.and_then(|entry| entry.unwritten.take()) {
            histogram!("collector_status_lag_seconds").record(now.since(unwritten.since));
        }
    }
}

//! Applies the results of writes: the store's new state, or the time of the next attempt.

use std::time::Duration;

use metrics::histogram;
use names::{Stored, schedule::spread};
use proto::api::{DnsName, DnsNameResolver};
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{
    publisher::Publisher,
    write::{Write, WriteOutcome},
};

/// The wait after the first failed write; it doubles six times, to 6.4 s.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

impl Publisher {
    /// Applies the result of a write.
    pub fn apply_written(
        &mut self,
        key: &ObjectKey,
        write: &Write,
        outcome: WriteOutcome,
        now: Timestamp,
    ) {
        let later = self.objects.in_flight.remove(key).unwrap_or_default();
        match outcome {
            WriteOutcome::Stored(object) => {
                let is_status = matches!(write, Write::Status(_));
                if is_status {
                    self.record_written(key, &object, now);
                }
                self.apply_newest(key, &object, now);
                let written = self.stored_object(key);
                if let Some(object) = written.filter(|_| is_status) {
                    object.written = now;
                }
            }
            WriteOutcome::Conflict(object) => self.apply_conflict(key, write, &object, now),
            // The object in its place has disappeared again, or the namespace does not exist.
            WriteOutcome::Gone if matches!(write, Write::Create(_)) => {
                self.put_off(key, write, now);
            }
            WriteOutcome::Gone => self.remove_object(key, now),
            WriteOutcome::TooLarge => {
                // A smaller one is tried soon.
                let name = self.objects.name_of(key).map(|(_, name)| name.clone());
                if let Some(name) = name.filter(|_| self.names.leads()) {
                    self.names.shrink(&name, now);
                }
                self.put_off(key, write, now);
            }
            WriteOutcome::Refused | WriteOutcome::Failed => self.put_off(key, write, now),
        }
        let Some(source) = self.objects.policy.source_in(&key.namespace) else {
            return;
        };
        for event in later {
            self.apply_event(source, event, now);
        }
    }

    fn record_written(&mut self, key: &ObjectKey, object: &DnsNameResolver, now: Timestamp) {
        let (Some(name), Some(status)) = (self.names.known(&object.spec.name), &object.status)
        else {
            return;
        };
        let (Some(entry), Some(of_name)) = (self.names.get(name), self.by_name.get_mut(name))
        else {
            return;
        };
        if let Some(since) = of_name.unwritten_since.take() {
            histogram!("egress_collector_status_lag_seconds").record(now.since(since));
        }
        let status = Stored::new(status, entry.state());
        self.recent.written(entry, key, &status, now);
        // Nothing in an own write is news.
        if let Some(known) = self.stored_object(key) {
            known.status = status;
        }
    }

    fn apply_newest(&mut self, key: &ObjectKey, object: &DnsNameResolver, now: Timestamp) {
        self.creation_ended(key, &object.spec.name);
        if let Some(of_name) = self.by_name.get_mut(&*object.spec.name) {
            of_name.failures = 0;
            of_name.retry_at = Timestamp::default();
        }
        self.apply_object(key, object, now);
    }

    fn creation_ended(&mut self, key: &ObjectKey, name: &str) {
        if let Some(source) = self.objects.policy.source_in(&key.namespace)
            && let Some(of_name) = self.by_name.get_mut(name)
        {
            of_name.creating.remove(source);
        }
    }

    /// Another program's object has the key. It is adopted if it is for the same name. Otherwise the computed name
    /// collides by chance.
    fn apply_conflict(
        &mut self,
        key: &ObjectKey,
        write: &Write,
        object: &DnsNameResolver,
        now: Timestamp,
    ) {
        if let Write::Create(wanted) = write
            && wanted.spec.name != object.spec.name
            && let Some(of_name) = self.by_name.get_mut(&*wanted.spec.name)
        {
            of_name.collisions += 1;
            self.creation_ended(key, &wanted.spec.name);
            self.dirty.extend(DnsName::parse(&wanted.spec.name));
        }
        self.apply_newest(key, object, now);
    }

    /// Puts the next write off: twice as long each time.
    fn put_off(&mut self, key: &ObjectKey, write: &Write, now: Timestamp) {
        let name = match write {
            Write::Create(object) => DnsName::parse(&object.spec.name).ok(),
            _ => self.objects.name_of(key).map(|(_, name)| name.clone()),
        };
        let Some(name) = name else {
            return;
        };
        self.creation_ended(key, name.as_str());
        if let Some(of_name) = self.by_name.get_mut(&name) {
            of_name.failures = of_name.failures.saturating_add(1);
            let half = FIRST_BACKOFF * 2_u32.pow(of_name.failures.min(7) - 1) / 2;
            // Spread, so that not all retries come at once.
            of_name.retry_at = now + half + spread(&name, now, half);
        }
        self.dirty.insert(name);
    }
}

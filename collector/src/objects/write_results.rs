//! Applies the results of writes: the store's new state, or the time of the next attempt.

use std::time::Duration;

use metrics::histogram;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{clock::Timestamp, store::ObjectKey};

use super::{
    publish::{Write, WriteOutcome},
    updates::ObjectUpdate,
};
use crate::{lookup::spread, state::Eviction};

/// The wait after the first failed write; it doubles six times, to 6.4 s.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// The longest pause that the store can ask for.
const MAX_ASKED: Duration = Duration::from_secs(60);

impl ObjectUpdate<'_> {
    /// Applies the result of a write.
    pub(crate) fn written(&mut self, key: &ObjectKey, write: &Write, outcome: WriteOutcome) {
        let later = self.objects.in_flight.remove(key).unwrap_or_default();
        match outcome {
            WriteOutcome::Stored(object) => {
                self.objects.in_flight_limit.grow();
                let of_status = matches!(write, Write::Status(_));
                if of_status {
                    self.record_lag(&object);
                    if let Some(entry) = self.names.entries.get(&*object.spec.name) {
                        let recent = &self.names.shared.new_addresses;
                        recent.written(entry, key, &object, self.now);
                    }
                }
                self.stored(key, &object);
                let written = self.objects.find(key, self.names);
                if let Some(object) = written.filter(|_| of_status) {
                    object.written = self.now;
                }
            }
            WriteOutcome::Stale(object) => self.taken(key, write, &object),
            // The object in its place has disappeared again, or the namespace does not exist.
            WriteOutcome::Gone if matches!(write, Write::Create(_)) => {
                self.failed(key, write, None);
            }
            WriteOutcome::Gone => self.remove(key),
            WriteOutcome::TooLarge => self.too_large(key, write),
            WriteOutcome::Refused => self.failed(key, write, None),
            WriteOutcome::Failed(asked) => self.failed(key, write, asked),
        }
        let source = self.objects.policy.source_in(&key.namespace);
        for event in later {
            if let Some(source) = source {
                self.event(source, event);
            }
        }
    }

    fn stored(&mut self, key: &ObjectKey, object: &DnsNameResolver) {
        self.is_created(key, &object.spec.name);
        if let Some(entry) = self.names.entries.get_mut(&*object.spec.name) {
            entry.writes.failures = 0;
            entry.writes.retry_at = Timestamp::default();
        }
        self.apply(key, object);
    }

    /// The creation of an object has ended.
    fn is_created(&mut self, key: &ObjectKey, spec: &str) {
        let source = self.objects.policy.source_in(&key.namespace);
        if let Some(entry) = self.names.entries.get_mut(spec)
            && let Some(source) = source
        {
            entry.writes.creating.remove(source);
        }
    }

    /// Another program's object has the key. It is adopted if it is for the same name. Otherwise
    /// the computed name collides by chance.
    fn taken(&mut self, key: &ObjectKey, write: &Write, object: &DnsNameResolver) {
        if let Write::Create(wanted) = write
            && wanted.spec.name != object.spec.name
            && let Some(entry) = self.names.entries.get_mut(&*wanted.spec.name)
        {
            entry.writes.collisions += 1;
            self.is_created(key, &wanted.spec.name);
            self.names.dirty.extend(DnsName::parse(&wanted.spec.name));
        }
        self.stored(key, object);
    }

    /// The store refuses an object of this size: a smaller one is tried soon.
    fn too_large(&mut self, key: &ObjectKey, write: &Write) {
        if let Some((_, spec)) = self.objects.spec_of(key)
            && let Some(entry) = self.names.entries.get_mut(spec)
            && self.lead.leads()
        {
            let (memory, limits) = (&mut entry.memory, &entry.in_use.limits);
            let learned = Eviction::new(memory, limits, self.now).shrink();
            self.names.learned(spec, &learned, self.now);
        }
        self.failed(key, write, None);
    }

    /// Puts the next write off: twice as long each time, and at least as long as the store asks
    /// for. A pause that the store asks for applies to every write.
    fn failed(&mut self, key: &ObjectKey, write: &Write, retry_after: Option<Duration>) {
        let now = self.now;
        let asked = retry_after.map(|asked| asked.min(MAX_ASKED));
        if let Some(asked) = asked {
            let paused_until = &mut self.objects.paused_until;
            *paused_until = (*paused_until).max(Some(now + asked));
            self.objects.in_flight_limit.shrink();
        }
        let spec = match write {
            Write::Create(object) => DnsName::parse(&object.spec.name).ok(),
            _ => self.objects.spec_of(key).map(|(_, spec)| spec.clone()),
        };
        let Some(spec) = spec else {
            return;
        };
        self.is_created(key, spec.as_str());
        if let Some(entry) = self.names.entries.get_mut(&spec) {
            let writes = &mut entry.writes;
            writes.failures = writes.failures.saturating_add(1);
            let half = FIRST_BACKOFF * 2_u32.pow(writes.failures.min(7) - 1) / 2;
            let backoff = half + spread(&spec, now, half);
            // Spread, so that not all retries come at once.
            let asked = asked.map(|asked| asked + spread(&spec, now, asked / 4));
            writes.retry_at = now + backoff.max(asked.unwrap_or_default());
        }
        self.names.dirty.insert(spec);
    }

    fn record_lag(&mut self, object: &DnsNameResolver) {
        let entry = self.names.entries.get_mut(&*object.spec.name);
        if let Some(since) = entry.and_then(|entry| entry.writes.unwritten_since.take()) {
            histogram!("egress_collector_status_lag_seconds").record(self.now.since(since));
        }
    }
}

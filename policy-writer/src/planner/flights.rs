//! The jobs under way, by namespace. A namespace whose writes hang leaves places to the others.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use runtime::store::ObjectKey;

/// The most jobs of one namespace at once.
const OF_A_NAMESPACE: usize = 4;

/// The most jobs at once of all slow namespaces together. It is half of the places.
const OF_SLOW_ONES: usize = 8;

/// A job that takes longer than this makes its namespace slow.
const SLOW: Duration = Duration::from_secs(2);

/// The jobs under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    began: HashMap<ObjectKey, Instant>,
    by_namespace: HashMap<String, usize>,
    /// Namespaces whose last job took long. An admission webhook may cover some namespaces alone.
    slow: HashSet<String>,
}

impl Flights {
    /// Whether a job of the namespace may begin.
    pub(super) fn has_room(&self, namespace: &str) -> bool {
        let of_it = self.by_namespace.get(namespace).copied().unwrap_or(0);
        of_it < OF_A_NAMESPACE
            && (!self.slow.contains(namespace) || self.slow_jobs() < OF_SLOW_ONES)
    }

    fn slow_jobs(&self) -> usize {
        let slow = self.by_namespace.iter();
        let slow = slow.filter(|(namespace, _)| self.slow.contains(*namespace));
        slow.map(|(_, jobs)| jobs).sum()
    }

    /// Whether the object has a job.
    pub(super) fn has_job(&self, key: &ObjectKey) -> bool {
        self.began.contains_key(key)
    }

    /// Whether a job of the object may begin.
    pub(super) fn may_begin(&self, key: &ObjectKey) -> bool {
        !self.has_job(key) && self.has_room(&key.namespace)
    }

    /// Begins a job, if there is room.
    pub(super) fn begin(&mut self, key: &ObjectKey, now: Instant) -> bool {
        if !self.may_begin(key) {
            return false;
        }
        self.began.insert(key.clone(), now);
        *self.by_namespace.entry(key.namespace.clone()).or_default() += 1;
        true
    }

    /// Ends a job.
    pub(super) fn end(&mut self, key: &ObjectKey, now: Instant) {
        let Some(began) = self.began.remove(key) else {
            return;
        };
        if let Some(count) = self.by_namespace.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&key.namespace);
            }
        }
        if now.saturating_duration_since(began) > SLOW {
            self.slow.insert(key.namespace.clone());
        } else {
            self.slow.remove(&key.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: usize, name: usize) -> ObjectKey {
        ObjectKey {
            namespace: format!("team-{namespace}"),
            name: format!("n{name}"),
        }
    }

    fn begin(flights: &mut Flights, namespace: usize, now: Instant) -> usize {
        let jobs = (0..16).filter(|name| flights.begin(&key(namespace, *name), now));
        jobs.count()
    }

    #[test]
    fn a_namespace_takes_a_quarter_of_the_places() {
        let (mut flights, now) = (Flights::default(), Instant::now());
        assert_eq!(begin(&mut flights, 1, now), 4);
        assert_eq!(begin(&mut flights, 2, now), 4);
        flights.end(&key(1, 0), now);
        // A key has one job at once.
        assert!(!flights.begin(&key(1, 1), now));
        assert!(flights.begin(&key(1, 0), now));
    }

    #[test]
    fn slow_namespaces_share_half_of_the_places() {
        let (mut flights, now) = (Flights::default(), Instant::now());
        for namespace in 0..5 {
            begin(&mut flights, namespace, now);
        }
        let later = now + Duration::from_secs(10);
        for (namespace, name) in (0..5).flat_map(|it| (0..4).map(move |name| (it, name))) {
            flights.end(&key(namespace, name), later);
        }
        let slow: usize = (0..5).map(|it| begin(&mut flights, it, later)).sum();
        assert_eq!(slow, 8);
        assert_eq!(begin(&mut flights, 9, later), 4);
        // A quick answer takes the namespace out of the slow ones.
        flights.end(&key(0, 0), later);
        assert!(flights.begin(&key(0, 0), later));
    }
}

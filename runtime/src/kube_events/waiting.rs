//! Events that the API server could not take yet, and when to retry them.

use std::time::Duration;

use tokio::time::Instant;

use super::{Report, fair_queue::FairQueue};

/// How many Events may wait.
const MOST: usize = 256;

/// An Event that waited longer is dropped. It is raised when it is reported again.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// The wait after a first failure; it doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait, whatever the server asks for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// An Event to raise.
#[derive(Debug)]
pub(super) struct Unraised {
    pub(super) report: Report,
    /// The id of the report.
    pub(super) id: u64,
    /// The number of reports.
    pub(super) times: i32,
    pub(super) since: Instant,
}

/// The waiting Events, in turns of namespaces.
#[derive(Debug)]
pub(super) struct Waiting {
    events: FairQueue<Unraised>,
    /// When to try the next.
    pub(super) next: Instant,
    /// Failures since the last success.
    failures: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            events: FairQueue::new(MOST),
            next: Instant::now(),
            failures: 0,
        }
    }
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Puts an Event behind the others of its namespace, so that a failing one delays no other. Returns it if there is
    /// no room.
    pub(super) fn push(&mut self, event: Unraised) -> Option<Unraised> {
        let namespace = event.report.namespace().to_owned();
        self.events.push(namespace, event).err()
    }

    /// The next Event to try, and the expired ones before it.
    pub(super) fn pop(&mut self, now: Instant) -> (Option<Unraised>, Vec<Unraised>) {
        let mut old = Vec::new();
        while let Some(event) = self.events.pop() {
            if now < event.since + MAX_AGE {
                return (Some(event), old);
            }
            old.push(event);
        }
        (None, old)
    }

    /// An Event was raised, so the others are due.
    pub(super) fn works(&mut self) {
        self.failures = 0;
        self.next = Instant::now();
    }

    /// The server could not take an Event, and asks for this pause.
    pub(super) fn fails(&mut self, asked: Option<Duration>, now: Instant) {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.next = now + wait.max(asked.unwrap_or_default()).min(MAX_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{super::Severity, *};

    fn event(namespace: &str, id: u64, since: Instant) -> Unraised {
        Unraised {
            report: Report {
                about: ObjectReference {
                    namespace: Some(namespace.to_owned()),
                    ..ObjectReference::default()
                },
                severity: Severity::Warning,
                reason: "Test",
                note: String::new(),
            },
            id,
            times: 1,
            since,
        }
    }

    #[test]
    fn waits_grow_up_to_a_minute_whatever_the_server_asks_for() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let mut wait = |asked: Option<u64>| {
            waiting.fails(asked.map(Duration::from_secs), now);
            (waiting.next - now).as_secs()
        };
        let waits: Vec<_> = (0..8).map(|_| wait(None)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(wait(Some(3600)), 60);
        waiting.works();
        waiting.fails(Some(Duration::from_secs(5)), now);
        assert_eq!(waiting.next, now + Duration::from_secs(5));
    }

    #[test]
    fn only_so_many_wait_and_only_for_so_long() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for id in 0..300 {
            let left = waiting.push(event("noisy", id, now + Duration::from_secs(id)));
            assert_eq!(left.is_none(), id < 128);
        }
        let (first, old) = waiting.pop(now + MAX_AGE + Duration::from_secs(9));
        assert_eq!((first.unwrap().id, old.len()), (10, 10));
    }

    #[test]
    fn a_namespace_with_few_events_gets_its_turn_after_one_of_each_other() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for id in 0..300 {
            waiting.push(event("noisy", id, now));
        }
        assert!(waiting.push(event("quiet", 999, now)).is_none());
        let ids = [(); 3].map(|()| waiting.pop(now).0.unwrap().id);
        assert_eq!(ids, [0, 999, 1]);
    }
}

//! The time of day, as a value that tests can set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

pub use proto::timestamp::Timestamp;

/// A clock: the system's, or one that a test sets.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that shows `now` until [`Clock::set`].
    pub fn manual(now: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(now.as_millis()))))
    }

    /// Sets a manual clock and all its clones; no effect on the system's clock.
    pub fn set(&self, now: Timestamp) {
        if let Some(manual) = &self.0 {
            manual.store(now.as_millis(), Ordering::Relaxed);
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp::from_millis(manual.load(Ordering::Relaxed)),
            None => {
                let since_epoch = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Timestamp::default() + since_epoch
            }
        }
    }
}

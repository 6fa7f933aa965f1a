//! The time of day, as a value that is passed along and that tests set.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use k8s_openapi::jiff;
use serde::{Serialize, Serializer};

/// Milliseconds since the Unix epoch, UTC. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The whole second that it is in, as the API stores times.
    #[must_use]
    pub const fn floor_second(self) -> Self {
        Self(self.0.div_euclid(1000).saturating_mul(1000))
    }

    /// The time so much earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// How long ago `earlier` was; zero if it is ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// As RFC 3339 has it; nothing beyond the years that it knows.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.0);
        at.map_or(Ok(()), |at| at.fmt(f))
    }
}

/// As it is [displayed](fmt::Display).
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Tells the time: the system's, or one that a test sets.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands at `now` until [`Clock::set`].
    pub fn manual(now: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(now.0))))
    }

    /// Sets a manual clock and all its clones; the system's clock is not touched.
    pub fn set(&self, now: Timestamp) {
        if let Some(manual) = &self.0 {
            manual.store(now.0, Ordering::Relaxed);
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp(manual.load(Ordering::Relaxed)),
            None => {
                let since_epoch = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Timestamp(millis(since_epoch))
            }
        }
    }
}

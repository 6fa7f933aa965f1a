//! The time of day in milliseconds.

use std::{borrow::Cow, fmt, num::NonZeroU64, time::Duration};

use k8s_openapi::jiff;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Milliseconds since the Unix epoch, UTC. Arithmetic saturates.
///
/// An `Option` of it takes no more room: a process has hundreds of thousands of them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(NonZeroU64);

/// Milliseconds from the first time to the epoch, so that no time is zero.
const EPOCH: u64 = 1 << 63;

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        match NonZeroU64::new(EPOCH.wrapping_add_signed(millis)) {
            Some(since_first) => Self(since_first),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0.get().wrapping_sub(EPOCH).cast_signed()
    }

    /// The time rounded down to a whole second, as the API stores times.
    #[must_use]
    pub const fn floor_second(self) -> Self {
        let seconds = self.as_millis().div_euclid(1000);
        Self::from_millis(seconds.saturating_mul(1000))
    }

    /// The time `duration` earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self::from_millis(self.as_millis().saturating_sub(millis(duration)))
    }

    /// The time since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// The epoch.
impl Default for Timestamp {
    fn default() -> Self {
        Self::from_millis(0)
    }
}

/// In RFC 3339 form; empty for years outside its range.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.as_millis());
        at.map_or(Ok(()), |at| at.fmt(f))
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// In its [displayed](fmt::Display) form.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From RFC 3339 form, rounded down to milliseconds.
impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self::from_millis(at.as_millisecond()))
    }
}

/// The nearest one of its range.
impl From<Timestamp> for jiff::Timestamp {
    fn from(at: Timestamp) -> Self {
        let millis = at.as_millis();
        let nearest = if millis < 0 { Self::MIN } else { Self::MAX };
        Self::from_millisecond(millis).unwrap_or(nearest)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self::from_millis(self.as_millis().saturating_add(millis(duration)))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

//! Times along the way, and their quantiles.

/// The legs of a new address.
pub const LEGS: [&str; 5] = ["event", "status", "object", "committed", "packet"];

use super::events::Came;

/// The milliseconds of each leg, and of the whole way until the packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Legs {
    /// In the order of [`LEGS`].
    pub legs: [i64; LEGS.len()],
    /// From the beginning to the packet.
    pub all: i64,
}

impl Legs {
    /// Those of an address. A leg begins where the last one before it ended. One that was over by then takes no time.
    pub(super) fn new(came: &Came, packet: i64) -> Self {
        let mut at = came.answered;
        let legs = [came.read, came.status, came.object, came.row, packet].map(|time| {
            let begin = at;
            at = at.max(time);
            at - begin
        });
        let all = packet.max(came.answered) - came.answered;
        Self { legs, all }
    }
}

/// The median and the 99th percentile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quantiles {
    /// The median.
    pub p50: i64,
    /// The 99th percentile.
    pub p99: i64,
}

/// Those of some times; of none they are 0.
pub(super) fn quantiles(mut times: Vec<i64>) -> Quantiles {
    times.sort_unstable();
    let at = |part: usize| {
        let index = times.len().saturating_sub(1) * part / 100;
        times.get(index).copied().unwrap_or(0)
    };
    Quantiles {
        p50: at(50),
        p99: at(99),
    }
}

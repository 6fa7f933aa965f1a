//! Times along the way, and their quantiles.

/// The legs of an address that comes.
pub const OF_NEW: [&str; 6] = [
    "event",
    "status",
    "object",
    "committed",
    "realized",
    "packet",
];

/// The legs of an address that goes.
pub const OF_EXPIRED: [&str; 5] = ["status", "object", "committed", "realized", "packet"];

use super::events::{Came, Changed};

/// The milliseconds of each leg, and of the whole way until the packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Legs {
    /// In the order of [`OF_NEW`] or [`OF_EXPIRED`].
    pub legs: Vec<i64>,
    /// From the beginning to the packet.
    pub all: i64,
}

impl Legs {
    /// Those of an address that comes.
    pub(super) fn of_new(came: &Came, packet: i64) -> Self {
        Self::along(came.answered, &[came.read], &came.changed, packet)
    }

    /// Those of an address that was due to go at `due`.
    pub(super) fn of_expired(due: i64, went: &Changed, packet: i64) -> Self {
        Self::along(due, &[], went, packet)
    }

    /// A leg begins where the last one before it ended. One that was over by then takes no time. The packet and the
    /// rules both begin at the row.
    fn along(start: i64, before: &[i64], changed: &Changed, packet: i64) -> Self {
        let (mut legs, mut at) = (Vec::new(), start);
        let steps = [changed.status, changed.object, changed.row];
        for time in before.iter().chain(&steps) {
            let time = at.max(*time);
            legs.push(time - at);
            at = time;
        }
        legs.push((changed.rules - at).max(0));
        legs.push((packet - at).max(0));
        let all = packet.max(start) - start;
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

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: Changed = Changed {
        status: 110,
        object: 109,
        row: 113,
        rules: 118,
    };

    #[test]
    fn a_leg_begins_where_the_last_one_ended_and_none_is_negative() {
        let came = Came {
            answered: 100,
            read: 104,
            changed: CHANGED,
        };
        let legs = Legs::of_new(&came, 115);
        assert_eq!(legs.legs, [4, 6, 0, 3, 5, 2]);
        assert_eq!((legs.all, legs.legs.len()), (15, OF_NEW.len()));
        let legs = Legs::of_expired(105, &CHANGED, 112);
        assert_eq!(legs.legs, [5, 0, 3, 5, 0]);
        assert_eq!((legs.all, legs.legs.len()), (7, OF_EXPIRED.len()));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let of = quantiles((0..=100).rev().collect());
        assert_eq!((of.p50, of.p99), (50, 99));
        let none = quantiles(Vec::new());
        assert_eq!((none.p50, none.p99), (0, 0));
    }
}

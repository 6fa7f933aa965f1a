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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_begins_where_the_last_one_ended_and_none_is_negative() {
        let came = Came {
            answered: 100,
            read: 104,
            status: 110,
            object: 109,
            row: 113,
        };
        let legs = Legs::new(&came, 115);
        assert_eq!((legs.legs, legs.all), ([4, 6, 0, 3, 2], 15));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let of = quantiles((0..=100).rev().collect());
        assert_eq!((of.p50, of.p99), (50, 99));
        let none = quantiles(Vec::new());
        assert_eq!((none.p50, none.p99), (0, 0));
    }
}

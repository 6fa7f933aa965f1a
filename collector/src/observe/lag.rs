//! Measures how late the answers of a stream arrive, apart from the offset between two clocks.
//!
//! A paused collector or a delayed stream receives answers late, when part of their TTL is over.
//! The DNS server's clock may differ from the collector's by any amount. The smallest difference
//! among the answers of a stream is taken as that offset.

use std::time::Duration;

use runtime::clock::Timestamp;

/// The offset is the smallest difference of the last one or two spans of reading, so a clock that
/// was set is followed after two.
const SPAN: Duration = Duration::from_secs(2);

/// The most that the time between two answers counts as reading. After a pause, the waiting answers
/// are read within a moment and must not count for the pause.
const READING: Duration = Duration::from_millis(500);

/// The smallest difference between the two clocks of late.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// In milliseconds, of this span and of the one before. `None` before the first answer.
    smallest: [Option<i64>; 2],
    /// The time of reading in this span.
    read: Duration,
    last: Timestamp,
}

impl Lateness {
    /// The time of an answer by the collector's clock. `answered_at` is the server's time of the
    /// answer, `at` the time of receipt.
    pub(super) fn given(&mut self, answered_at: Timestamp, at: Timestamp) -> Timestamp {
        self.read += at.since(self.last).min(READING);
        self.last = at;
        if self.read >= SPAN {
            let [last, _] = self.smallest;
            self.smallest = [None, last];
            self.read = Duration::ZERO;
        }
        let difference = at.as_millis().saturating_sub(answered_at.as_millis());
        let [current, last] = &mut self.smallest;
        let smallest = current.map_or(difference, |smallest| smallest.min(difference));
        *current = Some(smallest);
        let smallest = last.map_or(smallest, |last| last.min(smallest));
        let late = difference.saturating_sub(smallest);
        at.before(Duration::from_millis(u64::try_from(late).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn what_comes_late_was_given_earlier_whatever_the_servers_clock_shows() {
        for clock in [-3_600_000_i64, 0, 5_000] {
            let mut lag = Lateness::default();
            let mut given = |answered, read| {
                let given = lag.given(at(answered + clock), at(read));
                given.as_millis() - at(0).as_millis()
            };
            assert_eq!(given(0, 900), 900, "there is nothing to compare with");
            assert_eq!(given(1_000, 1_100), 1_100);
            assert_eq!(given(2_000, 2_600), 2_100);
            // After a pause of five minutes.
            assert_eq!(given(3_000, 303_000), 3_100);
            assert_eq!(given(290_000, 303_010), 290_100);
            assert_eq!(given(303_000, 303_100), 303_100);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed_within_seconds_and_a_pause_is_none() {
        let mut lag = Lateness::default();
        let mut late = |answered, read| at(read).since(lag.given(at(answered), at(read)));
        assert_eq!(late(0, 100), Duration::ZERO);
        // The server's clock is set back by two minutes, then forward again.
        for (server, longest) in [(-120_000, 4_000), (0, 0)] {
            for step in 0..100 {
                let now = 1_000 + step * 100;
                let late = late(now + server, now + 100);
                let is_followed = now - 1_000 > longest;
                assert!(!is_followed || late == Duration::ZERO, "{late:?} at {now}");
            }
        }
        // A burst of answers arrives at once after a pause of the same length.
        for step in 0..10_000 {
            let answered = 12_000 + step * 10;
            let expected = Duration::from_millis(120_000 - step as u64 * 10);
            assert_eq!(late(answered, 132_100), expected);
        }
    }
}

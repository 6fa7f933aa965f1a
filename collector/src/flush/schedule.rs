//! When the next probe is due: pure functions of times.

use std::time::Duration;

use tokio::time::Instant;

/// Every block is probed at least this often: once a minute, with a margin for an exhausted budget.
pub const COVERAGE: Duration = Duration::from_secs(45);

/// The wait after the first probe of a server that is not received. It doubles up to [`COVERAGE`].
pub const FIRST_RETRY: Duration = Duration::from_secs(2);

/// A standby waits for twice the interval and this before it replaces another collector's probes.
pub const STANDBY: Duration = Duration::from_millis(50);

/// Why a server's block is probed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProbePurpose {
    /// To flush its stream, which comes here.
    Flush,
    /// The same, in case the probes of another collector stop.
    Standby,
    /// To find out whether its stream comes here.
    Search {
        /// Probes since it was last received, or since a stream opened that may be its.
        attempts: u32,
    },
}

/// The last events of a server's block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Last {
    pub sent: Option<Instant>,
    /// The last time that its streams had traffic of their own. Of several streams, the one that
    /// was silent longest.
    pub flowed: Option<Instant>,
    /// The last time that they had any traffic.
    pub moved: Option<Instant>,
}

/// The interval at which so many blocks can be probed with at most `budget` probes a second. If the
/// budget allows, it is at most [`COVERAGE`], whatever is wanted.
pub fn interval(wanted: Duration, budget: u32, blocks: usize) -> Duration {
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let least = Duration::from_secs(1).saturating_mul(blocks) / budget.max(1);
    wanted.min(COVERAGE).max(least)
}

/// When the next probe is due; it may be in the past.
///
/// Traffic of its own flushes a stream, so the interval counts from there too. But that traffic may
/// come from one of two blocks only. So coverage probes are sent all the same.
pub fn due(purpose: ProbePurpose, last: Last, interval: Duration) -> Option<Instant> {
    let sent = last.sent?;
    Some(match purpose {
        ProbePurpose::Flush => {
            let next = last.flowed.map_or(sent, |flowed| flowed.max(sent)) + interval;
            next.min(sent + COVERAGE.max(interval))
        }
        ProbePurpose::Standby => {
            last.moved.map_or(sent, |moved| moved.max(sent)) + interval * 2 + STANDBY
        }
        ProbePurpose::Search { attempts } => {
            let doubled = FIRST_RETRY.saturating_mul(1 << attempts.saturating_sub(1).min(16));
            sent + doubled.min(COVERAGE).max(interval)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn last(start: Instant, sent: u32, flowed: Option<u32>) -> Last {
        let at = |ms: u32| start + MS * ms;
        Last {
            sent: Some(at(sent)),
            flowed: flowed.map(at),
            moved: flowed.map(at),
        }
    }

    #[test]
    fn intervals_stretch_to_fit_the_budget() {
        for (wanted, budget, blocks, expected) in [
            (100, 1000, 1, 100),
            (100, 1000, 100, 100),
            (100, 1000, 200, 200),
            (10, 1000, 1, 10),
            (10, 1000, 100, 100),
            (1, 1, 3, 3000),
            (1, 0, 3, 3000),
            // A wanted interval that is too long is capped, so that blocks without a stream are
            // still found.
            (600_000, 1000, 1, 45_000),
            (600_000, 1, 100, 100_000),
        ] {
            let interval = interval(MS * wanted, budget, blocks);
            assert_eq!(interval, MS * expected);
        }
    }

    #[test]
    fn the_first_probe_is_due_at_once() {
        let last = Last::default();
        assert_eq!(due(ProbePurpose::Flush, last, MS), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_busier_than_the_interval_is_probed_only_for_coverage() {
        let start = Instant::now();
        let due = |sent, flowed| due(ProbePurpose::Flush, last(start, sent, flowed), MS * 100);
        assert_eq!(due(0, None), Some(start + MS * 100));
        assert_eq!(due(50, Some(20)), Some(start + MS * 150));
        assert_eq!(due(0, Some(99)), Some(start + MS * 199));
        assert_eq!(due(0, Some(60_000)), Some(start + COVERAGE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_stands_by_helps_out_when_nothing_moves() {
        let start = Instant::now();
        let due = |moved| due(ProbePurpose::Standby, last(start, 0, moved), MS * 100);
        assert_eq!(due(Some(1000)), Some(start + MS * 1250));
        assert_eq!(due(None), Some(start + MS * 250));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_nobody_hears_is_asked_less_often_but_once_a_minute() {
        let start = Instant::now();
        let mut waits = Vec::new();
        for attempts in [1, 2, 3, 4, 5, 6, 7, 40, u32::MAX] {
            let due = due(ProbePurpose::Search { attempts }, last(start, 0, None), MS);
            waits.push((due.unwrap() - start).as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 45, 45, 45, 45]);
    }

    proptest! {
        #[test]
        fn probes_are_at_least_an_interval_and_at_most_the_coverage_time_apart(
            sent in 0_u32..100_000, flowed in prop::option::of(0_u32..200_000), interval in 1_u32..40_000,
            attempts: u32, standby: bool,
        ) {
            let start = Instant::now();
            let last = last(start, sent, flowed);
            let interval = MS * interval;
            let sent = last.sent.unwrap();
            for purpose in [ProbePurpose::Flush, ProbePurpose::Search { attempts }] {
                let due = due(purpose, last, interval).unwrap();
                prop_assert!(due >= sent + interval && due <= sent + COVERAGE.max(interval));
            }
            if standby {
                prop_assert!(due(ProbePurpose::Standby, last, interval).unwrap() >= sent + interval * 2);
            }
        }
    }
}

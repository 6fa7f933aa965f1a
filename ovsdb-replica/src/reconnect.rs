//! The order of the remotes, and the waits between attempts.

use std::time::Duration;

use super::remote::{Remote, Remotes};

/// The wait between two rounds of attempts: first and maximum. Each round doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(100);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The order of attempts. Every round tries each remote once, in an order that differs between clients. The waits
/// between rounds grow.
#[derive(Clone, Debug)]
pub(super) struct ReconnectSchedule {
    remotes: Remotes,
    /// The rest of this round.
    left: Vec<Remote>,
    /// The number of started rounds.
    rounds: u32,
}

impl ReconnectSchedule {
    pub(super) fn new(remotes: &Remotes) -> Self {
        Self {
            remotes: remotes.clone(),
            left: Vec::new(),
            rounds: 0,
        }
    }

    /// The next remote, and the wait before it.
    pub(super) fn next(&mut self) -> (Remote, Duration) {
        let mut delay = Duration::ZERO;
        loop {
            if let Some(remote) = self.left.pop() {
                return (remote, delay);
            }
            self.left = self.remotes.iter().cloned().collect();
            fastrand::shuffle(&mut self.left);
            delay = self.delay();
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// The connection was good: the next attempt is made at once.
    pub(super) fn succeeded(&mut self) {
        self.rounds = 0;
    }

    fn delay(&self) -> Duration {
        let Some(doublings) = self.rounds.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = FIRST_WAIT.saturating_mul(1 << doublings.min(20));
        let full = full.min(LONGEST_WAIT);
        // At least half of the wait, at random, so that many clients do not return to a recovered server at the same
        // moment.
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remote_is_tried_before_any_is_waited_for() {
        let remotes: Remotes = "tcp:a:1,tcp:b:1,tcp:c:1".parse().unwrap();
        let mut reconnect = ReconnectSchedule::new(&remotes);
        let round: Vec<_> = (0..3).map(|_| reconnect.next()).collect();
        assert!(round.iter().all(|(_, delay)| delay.is_zero()));
        let mut tried: Vec<_> = round
            .into_iter()
            .map(|(remote, _)| remote.to_string())
            .collect();
        tried.sort();
        assert_eq!(tried, ["tcp:a:1", "tcp:b:1", "tcp:c:1"]);
        assert!(!reconnect.next().1.is_zero());
        assert!(reconnect.next().1.is_zero());
    }

    #[test]
    fn waits_grow_to_the_limit_and_start_over_after_success() {
        let remotes: Remotes = "unix:/a".parse().unwrap();
        let mut reconnect = ReconnectSchedule::new(&remotes);
        let waits: Vec<_> = (0..200).map(|_| reconnect.next().1).collect();
        for (index, wait) in waits.iter().enumerate().skip(1) {
            let full =
                Duration::from_millis(100 << (index - 1).min(10)).min(Duration::from_secs(3));
            assert!(*wait >= full / 2 && *wait <= full, "{index}: {wait:?}");
        }
        reconnect.succeeded();
        assert!(reconnect.next().1.is_zero());
    }
}

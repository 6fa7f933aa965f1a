//! The order of the remotes, and the waits between attempts.

use std::{
    iter::{Chain, Once, once},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::remote::{Remote, Remotes};

/// The longest wait between two rounds of attempts.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The order of attempts. Every round tries each remote once, in an order that differs between clients. The waits
/// between rounds grow.
#[derive(Debug)]
pub(super) struct ReconnectSchedule {
    remotes: Remotes,
    /// The rest of this round.
    left: Vec<Remote>,
    waits: Chain<Once<Duration>, ExponentialBackoff>,
}

impl ReconnectSchedule {
    pub(super) fn new(remotes: &Remotes) -> Self {
        Self {
            remotes: remotes.clone(),
            left: Vec::new(),
            waits: waits(),
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
            delay = self.waits.next().unwrap_or(LONGEST_WAIT);
        }
    }

    /// The connection was good: the next attempt is made at once.
    pub(super) fn succeeded(&mut self) {
        self.waits = waits();
    }
}

/// The waits of each round: none at first, then 50 ms to 1.5 s. Each is up to twice as long, at random, so that many
/// clients do not return to a recovered server at the same moment.
fn waits() -> Chain<Once<Duration>, ExponentialBackoff> {
    let growing = ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(LONGEST_WAIT / 2)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(fastrand::u64(..));
    once(Duration::ZERO).chain(growing.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_tries_every_remote_before_a_wait() {
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
    fn next_waits_longer_until_success() {
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

//! A process that would be a worse leader leaves the lead to others, as long as one of them takes it.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use super::LEASE_DURATION;

/// How much later than others a worse leader takes a free lead.
const DELAY: Duration = Duration::from_secs(2 * LEASE_DURATION.as_secs());

/// How much later a process takes the lead again after it gave it up. Others check every two seconds.
const DELAY_AFTER: Duration = Duration::from_secs(LEASE_DURATION.as_secs() / 2);

/// How long a worse leader waits before it gives the lead up.
const YIELD_DELAY: Duration = Duration::from_secs(60);

/// A replica that has led for this long is not about to give the lead up, so after it the lead may be given up again.
const SETTLED: Duration = Duration::from_secs(120);

/// Whether other replicas would be better leaders than this process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Others {
    /// No other would.
    #[default]
    NoBetter,
    /// One may. The lead is given up once, after 60 s. If no other takes it within half a lease duration, this process
    /// leads again.
    MayBeBetter,
    /// Any other would. Like [`Others::MayBeBetter`], and a free lead is taken two lease durations later than others
    /// take it.
    Better,
}

pub(super) struct Deference {
    others: watch::Receiver<Others>,
    /// Since when another may be better, without a break.
    since: Option<Instant>,
    /// The process gave the lead up, and took it again because no other did.
    has_yielded: bool,
    /// Since when another has led, without a break.
    another_leads_since: Option<Instant>,
}

impl Deference {
    pub(super) fn new(others: watch::Receiver<Others>) -> Self {
        Self {
            others,
            since: None,
            has_yielded: false,
            another_leads_since: None,
        }
    }

    /// For a process that leads as well as any other.
    pub(super) fn none() -> Self {
        Self::new(watch::channel(Others::NoBetter).1)
    }

    /// For how long the lead must have been free before this process takes it.
    pub(super) fn delay(&self) -> Duration {
        match *self.others.borrow() {
            Others::Better => DELAY,
            Others::MayBeBetter if self.has_yielded => DELAY_AFTER,
            Others::MayBeBetter | Others::NoBetter => Duration::ZERO,
        }
    }

    /// Records a check of the lease, with whether another leads now.
    pub(super) fn look(&mut self, another_leads: bool, now: Instant) {
        if *self.others.borrow() == Others::NoBetter {
            (self.since, self.has_yielded) = (None, false);
        } else if another_leads {
            // A new leader gets the full time to lead.
            self.since = None;
        } else {
            self.since.get_or_insert(now);
        }
        if !another_leads {
            self.another_leads_since = None;
        } else if *self.another_leads_since.get_or_insert(now) + SETTLED <= now {
            self.has_yielded = false;
        }
    }

    /// Whether this process, which leads, must give the lead up now.
    pub(super) fn yields(&mut self, now: Instant) -> bool {
        self.look(false, now);
        let is_over = self.since.is_some_and(|since| since + YIELD_DELAY <= now);
        is_over && !std::mem::replace(&mut self.has_yielded, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_lead_is_given_up_once_and_again_after_another_has_led_for_long() {
        let (prefers, receiver) = watch::channel(Others::Better);
        let mut deference = Deference::new(receiver);
        let start = Instant::now();
        assert!(!deference.yields(start));
        assert!(!deference.yields(start + seconds(59)));
        assert!(deference.yields(start + seconds(60)));
        // No other replica took it, or one that gave it up, too.
        for after in [61, 100, 160] {
            deference.look(true, start + seconds(after));
        }
        assert!(!deference.yields(start + seconds(200)));
        assert!(!deference.yields(start + seconds(10_000)));
        // Another has led for long.
        for after in [10_001, 10_122] {
            deference.look(true, start + seconds(after));
        }
        assert!(!deference.yields(start + seconds(10_130)));
        assert!(deference.yields(start + seconds(10_190)));
        // The process hears its peers, and then no longer.
        prefers.send_replace(Others::NoBetter);
        assert!(!deference.yields(start + seconds(20_000)));
        assert_eq!(deference.delay(), Duration::ZERO);
        prefers.send_replace(Others::Better);
        assert_eq!(deference.delay(), seconds(20));
        assert!(!deference.yields(start + seconds(20_001)));
        assert!(deference.yields(start + seconds(20_061)));
    }

    #[test]
    fn who_may_lead_worse_gives_the_lead_up_once_but_is_not_slow_to_take_it() {
        let (_others, receiver) = watch::channel(Others::MayBeBetter);
        let mut deference = Deference::new(receiver);
        let start = Instant::now();
        deference.look(false, start);
        assert_eq!(deference.delay(), Duration::ZERO);
        assert!(!deference.yields(start + seconds(59)));
        assert!(deference.yields(start + seconds(60)));
        assert_eq!(deference.delay(), seconds(5), "others come first");
        assert!(!deference.yields(start + seconds(1000)));
    }
}

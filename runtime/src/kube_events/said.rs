//! The recent reports, and the rate limit of new ones.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How long an equal report is suppressed.
pub(super) const REPEAT_AFTER: Duration = Duration::from_secs(600);

/// The burst of reports; then one in each [`PACE`].
const BURST: u32 = 50;
const PACE: Duration = Duration::from_secs(1);

/// Above this number, reports older than [`REPEAT_AFTER`] are removed. The pace allows 650 reports in that time, so
/// there is always room for another.
const MAX_REMEMBERED: usize = 4096;

/// The recent reports.
pub(super) struct Said {
    recent: HashMap<u64, Recent>,
    /// When a whole burst is available again.
    full_at: Instant,
}

struct Recent {
    said: Instant,
    /// Reports since the first.
    times: i32,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            recent: HashMap::new(),
            full_at: Instant::now(),
        }
    }
}

impl Said {
    /// How long to wait before the next report.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let slack = PACE * (BURST - 1);
        self.full_at.saturating_duration_since(now + slack)
    }

    /// Records a report. Returns its count if it has to be sent now.
    pub(super) fn again(&mut self, id: u64, now: Instant) -> Option<i32> {
        let is_recent = |recent: &Recent| now < recent.said + REPEAT_AFTER;
        if self.recent.len() >= MAX_REMEMBERED {
            self.recent.retain(|_, recent| is_recent(recent));
        }
        let recent = self.recent.entry(id).or_insert(Recent {
            said: now,
            times: 0,
        });
        recent.times = recent.times.saturating_add(1);
        if recent.times > 1 && is_recent(recent) {
            return None;
        }
        recent.said = now;
        self.full_at = self.full_at.max(now) + PACE;
        Some(recent.times)
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.recent.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_in_ten_minutes_with_how_often_it_was_reported() {
        let (mut said, now) = (Said::default(), Instant::now());
        assert_eq!(said.again(1, now), Some(1));
        for i in 1..10 {
            assert_eq!(said.again(1, now + Duration::from_secs(i)), None);
        }
        assert_eq!(said.again(2, now), Some(1));
        assert_eq!(said.again(1, now + REPEAT_AFTER), Some(11));
        said.forget(1);
        assert_eq!(said.again(1, now + REPEAT_AFTER), Some(1));
    }

    #[test]
    fn not_too_much_is_said_at_once() {
        let (mut said, now) = (Said::default(), Instant::now());
        let mut ids = 0..;
        let mut burst = |now| {
            let mut count = 0;
            while said.wait(now).is_zero() {
                count += i32::from(said.again(ids.next().unwrap(), now).is_some());
            }
            count
        };
        assert_eq!(burst(now), 50);
        assert_eq!(burst(now + Duration::from_millis(3_900)), 3);
        assert_eq!(burst(now + Duration::from_secs(3_600)), 50);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_has_room_for_each_report() {
        let (mut said, mut now) = (Said::default(), Instant::now());
        for id in 0..100_000 {
            now += said.wait(now);
            assert_eq!(said.again(id, now), Some(1));
            assert!(said.recent.len() <= MAX_REMEMBERED);
        }
    }
}

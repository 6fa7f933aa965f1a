//! The rate of writes: bytes a second, in turns of namespaces, small writes first.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use runtime::store::ObjectKey;

/// Unspent bytes accumulate for this long.
const SAVED: f64 = 10.0;

/// A write goes after it has waited for this long, if its namespace has used less than its share.
pub const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The bytes that a namespace has used count half after this time.
const HALF_LIFE: f64 = 10.0;

/// A write that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a, T> {
    /// The write.
    pub what: T,
    pub namespace: &'a str,
    pub bytes: usize,
    /// Since when it may go.
    pub since: Instant,
}

/// A bucket of bytes, and what each namespace has used of late.
#[derive(Debug)]
pub struct Budget {
    rate: f64,
    left: f64,
    filled: Instant,
    used: HashMap<String, f64>,
    /// The bytes of 10 s for each namespace that has used some or waits.
    share: f64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of objects are far below 2^52"
)]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

impl Budget {
    /// A full bucket of `--policy-write-bytes`.
    pub fn new(rate: usize, now: Instant) -> Self {
        Self {
            rate: size(rate),
            left: size(rate) * SAVED,
            filled: now,
            used: HashMap::new(),
            share: size(rate) * SAVED,
        }
    }

    /// Adds the bytes of the time since the last call. The namespaces whose writes wait share the rate with those that
    /// have written of late.
    pub fn fill(&mut self, waiting: &BTreeSet<&str>, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + passed * self.rate).min(self.rate * SAVED);
        // Debt ends after as long as bytes are saved for.
        self.left = self.left.max(-self.rate * SAVED);
        let part = 0.5_f64.powf(passed / HALF_LIFE);
        self.used.retain(|_, used| {
            *used *= part;
            *used > 1.0
        });
        let new = waiting.iter().filter(|it| !self.used.contains_key(**it));
        let namespaces = self.used.len() + new.count();
        self.share = self.rate * SAVED / size(namespaces.max(1));
    }

    fn used(&self, namespace: &str) -> f64 {
        self.used.get(namespace).copied().unwrap_or(0.0)
    }

    /// The first so many of the due writes, one of each namespace in turn, and at most `of_one` of a namespace. A
    /// namespace that has used little comes before the others, and in a namespace the oldest write.
    pub fn in_turns(
        &self,
        mut due: Vec<(Instant, ObjectKey)>,
        most: usize,
        of_one: usize,
    ) -> Vec<(Instant, ObjectKey)> {
        due.sort_unstable();
        let mut turns: HashMap<String, usize> = HashMap::new();
        let mut ranked: Vec<_> = due
            .into_iter()
            .map(|(since, key)| {
                let next = turns.entry(key.namespace.clone()).or_default();
                let turn = *next;
                *next += 1;
                (turn, self.used(&key.namespace), since, key)
            })
            .collect();
        ranked.retain(|(turn, ..)| *turn < of_one);
        // The order inside a namespace stays, since the sort is stable.
        ranked.sort_by(|one, other| match one.0.cmp(&other.0) {
            Ordering::Equal => one.1.total_cmp(&other.1),
            order => order,
        });
        ranked.truncate(most);
        let due = ranked.into_iter();
        due.map(|(_, _, since, key)| (since, key)).collect()
    }

    /// The writes that may go now, at most so many, in their order. `begin` is asked last, and may refuse one. They are
    /// charged.
    pub fn admit<T>(
        &mut self,
        mut waiting: Vec<Waiting<'_, T>>,
        most: usize,
        now: Instant,
        mut begin: impl FnMut(&T) -> bool,
    ) -> Vec<T> {
        waiting.sort_by(|one, other| {
            let rank = |it: &Waiting<'_, T>| self.used(it.namespace) + size(it.bytes);
            rank(one).total_cmp(&rank(other))
        });
        let mut admitted = Vec::new();
        for write in waiting {
            let is_overdue = now.saturating_duration_since(write.since) >= LONGEST_WAIT
                && self.used(write.namespace) < self.share;
            let has_room = admitted.len() < most;
            let may_go = has_room && (is_overdue || self.left >= size(write.bytes));
            if may_go && begin(&write.what) {
                self.left -= size(write.bytes);
                *self.used.entry(write.namespace.to_owned()).or_default() += size(write.bytes);
                admitted.push(write.what);
            }
        }
        admitted
    }

    /// When enough bytes for such a write will be there, or it will be overdue in the share of its namespace.
    pub fn next(&self, namespace: &str, bytes: usize, since: Instant, now: Instant) -> Instant {
        let missing = (size(bytes) - self.left).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.rate).unwrap_or(LONGEST_WAIT);
        let used = self.used(namespace);
        let back_in_share = if used < self.share {
            now
        } else {
            let half_lives = (used / self.share).log2();
            let wait = Duration::try_from_secs_f64(HALF_LIFE * half_lives);
            // The end of rounding errors.
            now + wait.unwrap_or(LONGEST_WAIT) + Duration::from_millis(1)
        };
        (now + wait.min(LONGEST_WAIT)).min((since + LONGEST_WAIT).max(back_in_share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(what: u32, namespace: &str, bytes: usize, since: Instant) -> Waiting<'_, u32> {
        Waiting {
            what,
            namespace,
            bytes,
            since,
        }
    }

    /// Fills the bucket first.
    fn admit(budget: &mut Budget, waiting: &[Waiting<'_, u32>], now: Instant) -> Vec<u32> {
        budget.fill(&waiting.iter().map(|it| it.namespace).collect(), now);
        budget.admit(waiting.to_vec(), 9, now, |_| true)
    }

    #[test]
    fn small_writes_go_first_and_large_ones_wait_for_at_most_ten_seconds() {
        let start = Instant::now();
        let mut budget = Budget::new(100, start);
        let waiting = [write(1, "a", 900, start), write(2, "b", 200, start)];
        assert_eq!(admit(&mut budget, &waiting, start), [2]);
        let next = budget.next("a", 900, start, start);
        assert_eq!(next, start + Duration::from_secs(1));
        assert_eq!(admit(&mut budget, &[write(1, "a", 900, start)], next), [1]);
        let large = [write(3, "c", 5_000, start)];
        assert_eq!(admit(&mut budget, &large, next), [0; 0]);
        assert_eq!(admit(&mut budget, &large, start + LONGEST_WAIT), [3]);
    }

    #[test]
    fn a_namespace_that_writes_much_lets_others_go_first() {
        let start = Instant::now();
        let mut budget = Budget::new(100, start);
        assert_eq!(
            admit(&mut budget, &[write(1, "loud", 950, start)], start),
            [1]
        );
        let now = start + Duration::from_secs(1);
        let waiting = [write(2, "loud", 100, now), write(3, "quiet", 150, now)];
        assert_eq!(admit(&mut budget, &waiting, now), [3]);
    }

    #[test]
    fn overdue_writes_of_one_namespace_stay_within_its_share() {
        let start = Instant::now();
        let mut budget = Budget::new(100, start);
        let now = start + LONGEST_WAIT;
        let loud: Vec<_> = (0..9).map(|what| write(what, "loud", 400, start)).collect();
        let waiting = [&loud[..], &[write(9, "quiet", 4_000, start)]].concat();
        // Of 1,000 saved bytes two of its writes go, and the third finds its share of 500 used.
        assert_eq!(admit(&mut budget, &waiting, now), [0, 1, 9]);
        let next = budget.next("loud", 400, start, now);
        assert!(next > now);
        assert_eq!(admit(&mut budget, &loud, now), [0; 0]);
        assert_eq!(admit(&mut budget, &loud, next), [0]);
    }

    #[test]
    fn namespaces_take_turns_and_those_that_used_little_go_first() {
        let start = Instant::now();
        let mut budget = Budget::new(1_000, start);
        admit(&mut budget, &[write(1, "a", 100, start)], start);
        let due = |namespace: &str, name: &str, seconds| {
            let key = ObjectKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            (start + Duration::from_secs(seconds), key)
        };
        let all = vec![
            due("a", "1", 1),
            due("a", "2", 2),
            due("a", "3", 3),
            due("b", "1", 9),
            due("c", "2", 8),
            due("c", "1", 4),
        ];
        let first = budget.in_turns(all.clone(), 4, 4);
        let expected = [
            due("c", "1", 4),
            due("b", "1", 9),
            due("a", "1", 1),
            due("c", "2", 8),
        ];
        // Between namespaces that used the same, the oldest write decides.
        assert_eq!(first, expected);
        assert_eq!(budget.in_turns(all, 4, 1), expected[..3]);
    }
}

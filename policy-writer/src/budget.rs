//! The rate of writes of objects, in turns of namespaces.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use runtime::{
    store::ObjectKey,
    token_bucket::{TokenBucket, TokenRate},
    written_bytes::WrittenBytes,
};

use crate::planner::Now;

/// For how long unused bytes are saved.
const SAVED: Duration = Duration::from_secs(10);

/// The rate of all objects together: 1 MiB/s.
const ALL: TokenRate = TokenRate {
    bytes_per_second: 1_048_576.0,
    saved_for: SAVED,
};

/// The rate of the objects of one `DNSResolver`: 128 KiB/s.
const OF_ONE: TokenRate = TokenRate {
    bytes_per_second: 131_072.0,
    saved_for: SAVED,
};

/// The bytes of all writes.
#[derive(Debug, Default)]
pub struct Budget {
    all: TokenBucket,
    /// By namespace.
    written: WrittenBytes<String>,
}

/// The bytes of the writes for one `DNSResolver`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolverBudget(TokenBucket);

impl ResolverBudget {
    /// When its next write may begin; `None` is now.
    pub fn wait(self, now: Now) -> Option<Instant> {
        wait(self.0, OF_ONE, now)
    }
}

impl Budget {
    /// When the next write may begin; `None` is now.
    pub fn wait(&self, now: Now) -> Option<Instant> {
        wait(self.all, ALL, now)
    }

    /// Charges a write.
    pub fn charge(
        &mut self,
        namespace: &str,
        resolver: &mut ResolverBudget,
        bytes: usize,
        now: Now,
    ) {
        self.all.withdraw(bytes, ALL, now.time);
        resolver.0.withdraw(bytes, OF_ONE, now.time);
        self.written.add(namespace.to_owned(), bytes, now.time);
    }

    /// The first so many of the due writes, one of each namespace in turn, and at most `of_one` of a namespace. A
    /// namespace that has written little comes before the others, and in a namespace the oldest write.
    pub fn in_turns(
        &mut self,
        mut due: Vec<(Instant, ObjectKey)>,
        most: usize,
        of_one: usize,
        now: Now,
    ) -> Vec<ObjectKey> {
        self.written.forget(now.time);
        due.sort_unstable();
        let mut turns: HashMap<String, usize> = HashMap::new();
        let mut ranked = Vec::new();
        for (since, key) in due {
            let turn = turns.entry(key.namespace.clone()).or_default();
            *turn += 1;
            let bytes = self.written.of(&key.namespace);
            if *turn <= of_one {
                ranked.push((*turn, bytes, since, key));
            }
        }
        ranked.sort_unstable();
        ranked.truncate(most);
        ranked.into_iter().map(|(.., key)| key).collect()
    }
}

fn wait(mut bucket: TokenBucket, rate: TokenRate, now: Now) -> Option<Instant> {
    let at = bucket.wait_for(0.0, rate, now.time)?;
    Some(now.instant + at.since(now.time))
}

#[cfg(test)]
mod tests {
    use runtime::{clock::Timestamp, written_bytes::COUNTED_FOR};

    use super::*;

    #[test]
    fn write_of_object_over_its_rate_waits_and_others_go() {
        let (start, mut budget) = (Instant::now(), Budget::default());
        let now = |seconds| Now {
            instant: start + Duration::from_secs(seconds),
            time: Timestamp::from_millis(0) + Duration::from_secs(seconds),
        };
        let (mut one, other) = (ResolverBudget::default(), ResolverBudget::default());
        budget.charge("a", &mut one, 2 << 20, now(0));
        let next = one.wait(now(0)).unwrap() - start;
        assert!((6..7).contains(&next.as_secs()), "{next:?}");
        assert_eq!((other.wait(now(0)), budget.wait(now(0))), (None, None));
        budget.charge("a", &mut one, 10 << 20, now(0));
        assert!(budget.wait(now(0)).is_some());
        assert_eq!(budget.wait(now(3)), None);
    }

    #[test]
    fn namespaces_take_turns_and_those_that_wrote_little_go_first() {
        let (start, mut budget) = (Instant::now(), Budget::default());
        let now = Now {
            instant: start,
            time: Timestamp::default(),
        };
        budget.charge("a", &mut ResolverBudget::default(), 100, now);
        let due = |text: &str, seconds| {
            let key: ObjectKey = text.parse().unwrap();
            (start + Duration::from_secs(seconds), key)
        };
        let all = [
            ("a/1", 1),
            ("a/2", 2),
            ("a/3", 3),
            ("b/1", 9),
            ("c/2", 8),
            ("c/1", 4),
        ];
        let all: Vec<_> = all.iter().map(|(key, at)| due(key, *at)).collect();
        let later = Now {
            time: now.time + COUNTED_FOR,
            ..now
        };
        let mut first = |of_one, now| {
            let first = budget.in_turns(all.clone(), 4, of_one, now);
            let first = first.iter().map(ToString::to_string);
            first.collect::<Vec<_>>()
        };
        assert_eq!(first(4, now), ["c/1", "b/1", "a/1", "c/2"]);
        assert_eq!(first(1, now), ["c/1", "b/1", "a/1"]);
        assert_eq!(first(1, later), ["a/1", "c/1", "b/1"]);
    }
}

//! Two replicas that share a store.

use runtime::store::Event;

use super::{
    Owner,
    tests::{World, answer, at, name, wanted},
};
use crate::{
    args::ManageObjects,
    publish::Outcome,
    resolve::{Failure, FamilyOutcome, Round},
};

const WWW: &str = "www.example.com";

/// A leader with a store, and a replica that does not lead.
struct Pair {
    leader: World,
    follower: Owner,
    /// Writes that were stored, of each.
    stored: [usize; 2],
}

impl Pair {
    fn new() -> Self {
        let mut leader = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
        let mut follower = Owner::new(leader.owner.config.clone());
        follower.event(Event::Synced(Vec::new()), at(0));
        leader.want(&[WWW]);
        follower.want(&wanted(&[WWW], 0), at(0));
        Self {
            leader,
            follower,
            stored: [0; 2],
        }
    }

    /// Both see a pod's answer.
    fn observe(&mut self, ip: &str) {
        let mut observation = answer(WWW, ip, self.leader.now);
        observation.client = Some("10.0.0.1".parse().unwrap());
        self.leader.owner.observe(&observation);
        self.follower.observe(&observation);
    }

    fn fail(&mut self) {
        let now = at(self.leader.now);
        let failed = || FamilyOutcome::Failed(Failure::Rcode(2));
        let round = Round {
            name: name(WWW),
            started: now,
            finished: now,
            v4: failed(),
            v6: failed(),
        };
        self.leader.owner.round(&round, now);
    }

    /// Lets both write, and see what the other wrote, for a second; returns how many writes that took.
    fn settle(&mut self) -> usize {
        let mut count = 0;
        for _ in 0..100 {
            self.leader.now += 10;
            count += self.step();
        }
        count
    }

    /// Lets both write what there is to write now, and see what the other wrote; returns how many writes there were.
    fn step(&mut self) -> usize {
        let mut count = 0;
        let now = at(self.leader.now);
        let before = self.leader.store.clone();
        self.leader.owner.tick(now);
        for write in self.leader.owner.writes(now) {
            count += 1;
            let outcome = self.leader.carry_out(&write);
            self.stored[0] += usize::from(matches!(outcome, Outcome::Stored(_)));
            self.leader
                .owner
                .written(&write.key(), &write, outcome, now);
        }
        self.follower.tick(now);
        for write in self.follower.writes(now) {
            count += 1;
            let outcome = self.leader.carry_out(&write);
            self.stored[1] += usize::from(matches!(outcome, Outcome::Stored(_)));
            self.follower.written(&write.key(), &write, outcome, now);
        }
        for (key, object) in &self.leader.store {
            if before.get(key) != Some(object) {
                let event = || Event::Applied(object.clone());
                self.leader.owner.event(event(), now);
                self.follower.event(event(), now);
            }
        }
        count
    }

    fn degraded(&self) -> Vec<String> {
        let statuses = self.leader.store.values().flat_map(|it| &it.status);
        let names = statuses.flat_map(|status| &status.resolved_names);
        let conditions = names.flat_map(|name| &name.conditions);
        conditions
            .map(|condition| condition.status.clone())
            .collect()
    }
}

#[test]
fn replicas_agree_on_whether_a_name_is_degraded() {
    let mut pair = Pair::new();
    pair.settle();
    pair.observe("1.1.1.1");
    assert!((1..=3).contains(&pair.settle()));
    assert_eq!(pair.degraded(), ["False"]);
    pair.leader.now += 30_000;
    for failures in 1..8 {
        pair.fail();
        let writes = pair.settle();
        assert!(writes <= 2, "{writes} writes after {failures} failures");
        assert_eq!(pair.degraded(), ["True"]);
    }
    pair.observe("1.1.1.1");
    let writes = pair.settle();
    assert!((1..=3).contains(&writes), "{writes} writes");
    assert_eq!(pair.degraded(), ["False"]);
}

#[test]
fn who_takes_over_goes_on_with_the_failures_that_the_last_leader_counted() {
    let mut pair = Pair::new();
    pair.settle();
    pair.observe("1.1.1.1");
    pair.settle();
    pair.leader.now += 30_000;
    for _ in 0..6 {
        pair.fail();
        pair.settle();
    }
    assert_eq!(pair.degraded(), ["True"]);
    let now = at(pair.leader.now);
    pair.leader.owner.lead(false, now);
    pair.follower.lead(true, now);
    for _ in 0..5 {
        pair.settle();
        assert_eq!(pair.degraded(), ["True"]);
    }
}

/// A name in a cache that both replicas see: while the entry lives everybody gets its rest, and whoever asks first after that
/// a new one.
struct Cache {
    ttl: i64,
    /// By the clock of the test.
    until: i64,
}

impl Cache {
    /// The TTL of an answer, in whole seconds.
    fn answer(&mut self, now: i64) -> u32 {
        if self.until <= now {
            self.until = now + self.ttl * 1000;
        }
        u32::try_from((self.until - now) / 1000).unwrap()
    }
}

/// What the replicas of a [`Pair`] see in an hour of a name that keeps its address.
#[derive(Clone, Copy)]
struct Hour {
    /// A pod asks this often, in milliseconds.
    clients_every: Option<i64>,
    /// How late the stream shows the leader's look-ups to the other replica, in milliseconds, if it does.
    lookups_seen_after: Option<i64>,
}

impl Hour {
    /// Returns how many writes of the leader and of the other replica were stored.
    fn writes(self) -> [usize; 2] {
        let mut pair = Pair::new();
        pair.settle();
        pair.stored = [0; 2];
        let mut cache = Cache { ttl: 30, until: 0 };
        let mut late = Vec::new();
        if self.lookups_seen_after.is_some() {
            // Of some other name.
            let mut seen = answer("api.example.com", "2.2.2.2", pair.leader.now);
            seen.by_leader = true;
            pair.follower.observe(&seen);
        }
        let end = pair.leader.now + 3_600_000;
        while pair.leader.now < end {
            pair.leader.now += 200;
            let now = pair.leader.now;
            if self.clients_every.is_some_and(|every| now % every == 0) {
                let mut seen = answer(WWW, "1.1.1.1", now);
                seen.addresses[0].1 = cache.answer(now);
                seen.client = Some("10.0.0.1".parse().unwrap());
                pair.leader.owner.observe(&seen);
                pair.follower.observe(&seen);
            }
            while let Some(request) = pair.leader.owner.next_request(at(now)) {
                let mut seen = answer(WWW, "1.1.1.1", now);
                seen.addresses[0].1 = cache.answer(now);
                let round = Round {
                    name: request.name,
                    started: at(now),
                    finished: at(now),
                    v4: FamilyOutcome::Addresses {
                        addresses: seen.addresses.clone(),
                        at: at(now),
                        complete: true,
                    },
                    v6: FamilyOutcome::NoData,
                };
                pair.leader.owner.round(&round, at(now));
                seen.by_leader = true;
                late.extend(self.lookups_seen_after.map(|after| (now + after, seen)));
            }
            while late.first().is_some_and(|(when, _)| *when <= now) {
                let (when, mut seen) = late.remove(0);
                seen.at = at(when);
                pair.follower.observe(&seen);
            }
            pair.step();
        }
        assert_eq!(pair.leader.addresses(), ["www.example.com. 1.1.1.1"]);
        pair.stored
    }
}

#[test]
fn two_replicas_together_write_seldom_of_a_name_that_keeps_its_address() {
    let mut table = Vec::new();
    for clients_every in [None, Some(200), Some(1_000), Some(7_000)] {
        for lookups_seen_after in [Some(0), Some(200), Some(1_000), None] {
            let hour = Hour {
                clients_every,
                lookups_seen_after,
            };
            let [leader, follower] = hour.writes();
            table.push(format!(
                "{clients_every:?} {lookups_seen_after:?}: {leader} + {follower}"
            ));
            assert!(leader <= 7, "{table:#?}");
            let most = match (clients_every, lookups_seen_after) {
                // Nothing tells what the leader knows. A second write in a cache's cycle: in its last second a TTL counts as 5 s.
                (Some(_), None) => 240,
                _ => 0,
            };
            assert!(follower <= most, "{table:#?}");
        }
    }
    println!("{table:#?}");
}

#[test]
fn what_only_the_other_replica_saw_is_written_before_the_leader_may_remove_it() {
    let mut pair = Pair::new();
    pair.settle();
    let see = |pair: &mut Pair, ip: &str| {
        let mut seen = answer(WWW, ip, pair.leader.now);
        seen.client = Some("10.0.0.1".parse().unwrap());
        pair.follower.observe(&seen);
    };
    let start = pair.leader.now;
    see(&mut pair, "1.1.1.1");
    while pair.leader.now < start + 600_000 {
        pair.settle();
        let now = pair.leader.now;
        if (now - start) % 20_000 == 0 {
            see(&mut pair, "1.1.1.1");
        }
        while let Some(request) = pair.leader.owner.next_request(at(now)) {
            // The leader's server has another address, and the stream shows that to both.
            let mut seen = answer(WWW, "2.2.2.2", now);
            let round = Round {
                name: request.name,
                started: at(now),
                finished: at(now),
                v4: FamilyOutcome::Addresses {
                    addresses: seen.addresses.clone(),
                    at: at(now),
                    complete: true,
                },
                v6: FamilyOutcome::NoData,
            };
            pair.leader.owner.round(&round, at(now));
            seen.by_leader = true;
            pair.follower.observe(&seen);
        }
        let found = pair.leader.addresses().concat();
        assert!(found.contains("1.1.1.1"), "{} ms: {found}", now - start);
    }
}

/// Somebody else deletes the object and makes it again, without a status.
fn made_again(pair: &mut Pair, uid: &str) {
    let (key, mut object) = pair.leader.store.pop_first().unwrap();
    object.status = None;
    object.metadata.uid = Some(uid.to_owned());
    object.metadata.resource_version = Some(uid.to_owned());
    pair.leader.store.insert(key.clone(), object.clone());
    let now = at(pair.leader.now);
    pair.follower.event(Event::Deleted(key), now);
    pair.follower.event(Event::Applied(object), now);
}

/// Lets the one that does not lead write alone.
fn follow(pair: &mut Pair) -> Vec<String> {
    for _ in 0..100 {
        pair.leader.now += 10;
        let now = at(pair.leader.now);
        pair.follower.tick(now);
        for write in pair.follower.writes(now) {
            let outcome = pair.leader.carry_out(&write);
            pair.follower.written(&write.key(), &write, outcome, now);
        }
    }
    pair.leader.addresses()
}

#[test]
fn what_is_in_its_grace_returns_to_an_object_that_is_made_again_while_nobody_leads() {
    let mut pair = Pair::new();
    pair.settle();
    pair.observe("1.1.1.1");
    pair.settle();
    // The TTL of 30 s is over, the grace of 5 s is not.
    pair.leader.now += 30_000;
    made_again(&mut pair, "again");
    assert_eq!(follow(&mut pair), ["www.example.com. 1.1.1.1"]);
    // Nothing is kept for ever that no leader looks up.
    pair.leader.now += 30_000;
    made_again(&mut pair, "and again");
    assert_eq!(follow(&mut pair), ["www.example.com."]);
}

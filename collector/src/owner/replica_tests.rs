//! Two replicas that share a store.

use runtime::store::Event;

use super::{
    Owner,
    tests::{World, answer, at, name, wanted},
};
use crate::{
    args::ManageObjects,
    resolve::{Failure, FamilyOutcome, Round},
};

const WWW: &str = "www.example.com";

/// A leader with a store, and a replica that does not lead.
struct Pair {
    leader: World,
    follower: Owner,
}

impl Pair {
    fn new() -> Self {
        let mut leader = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
        let mut follower = Owner::new(leader.owner.config.clone());
        follower.event(Event::Synced(Vec::new()), at(0));
        leader.want(&[WWW]);
        follower.want(&wanted(&[WWW], 0), at(0));
        Self { leader, follower }
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
            let now = at(self.leader.now);
            let before = self.leader.store.clone();
            self.leader.owner.tick(now);
            for write in self.leader.owner.writes(now) {
                count += 1;
                let outcome = self.leader.carry_out(&write);
                self.leader
                    .owner
                    .written(&write.key(), &write, outcome, now);
            }
            self.follower.tick(now);
            for write in self.follower.writes(now) {
                count += 1;
                let outcome = self.leader.carry_out(&write);
                self.follower.written(&write.key(), &write, outcome, now);
            }
            for (key, object) in &self.leader.store {
                if before.get(key) != Some(object) {
                    let event = || Event::Applied(object.clone());
                    self.leader.owner.event(event(), now);
                    self.follower.event(event(), now);
                }
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

//! Look-ups of one namespace beside thousands of names of another whose servers are silent, with
//! the controller and the turns on a simulated clock.

use std::collections::BTreeMap;

use runtime::clock::Timestamp;

use super::*;
use crate::{
    controller::{self, StatusController},
    lookup::fairness::{Turn, Turns},
    objects::{ManageObjects, ObjectPolicy, Shared},
    rules::{RetentionPolicy, Wanted},
};

/// The time of a look-up with an answer, and of one without.
const ANSWER: i64 = 20;
const SILENCE: i64 = 5000;

const TTL: u32 = 10;

struct World {
    controller: StatusController,
    clients: Clients,
    wanted: Wanted,
    fairness: Turns,
    /// Running look-ups by the time of their end.
    running: BTreeMap<(i64, u64), Turn>,
    count: u64,
    now: i64,
    /// The lateness of the refreshes.
    late: Vec<i64>,
    answered: Vec<DnsName>,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

impl World {
    fn new() -> Self {
        let config = Config::default();
        let clients = Clients::default();
        let mut controller = StatusController::new(controller::Config {
            objects: ObjectPolicy::of_egress_firewalls("ovn-kubernetes", ManageObjects::Never),
            shared: Shared {
                clients: clients.clone(),
                ..Shared::default()
            },
            ..controller::Config::default()
        });
        controller.lead(true, at(0));
        Self {
            controller,
            clients,
            wanted: Wanted {
                in_sync: true,
                ..Wanted::default()
            },
            fairness: Turns::new(config.room(2)),
            running: BTreeMap::new(),
            count: 0,
            now: 0,
            late: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Adds so many names to the rules of a namespace.
    fn want(&mut self, namespace: &str, label: &str, count: usize) {
        let number = self.clients.number(namespace);
        let seconds = Duration::from_secs;
        let terms = RetentionPolicy {
            grace: seconds(5),
            min_ttl: seconds(5),
            allowed: true,
            ..RetentionPolicy::default()
        };
        for i in 0..count {
            let name = DnsName::parse(&format!("{label}{i}.example.com")).unwrap();
            let in_use = self.wanted.name_mut(&name);
            in_use.retention = terms;
            in_use.namespaces = [number].into();
        }
        self.controller
            .want(&self.wanted.clone().into(), at(self.now));
    }

    async fn pass(&mut self, millis: i64) {
        for _ in 0..millis {
            self.now += 1;
            tokio::time::advance(Duration::from_millis(1)).await;
            while let Some(entry) = self.running.first_entry()
                && entry.key().0 <= self.now
            {
                let turn = entry.remove();
                self.end(turn);
            }
            self.controller.tick(at(self.now));
            if self.controller.lookup_is_due(at(self.now)) {
                while let Some(request) = self.controller.next_request(at(self.now)) {
                    assert!(self.fairness.take(request).is_none());
                }
            }
            while let Some(turn) = self.fairness.next() {
                let request = &turn.request;
                if request.known > 0 {
                    self.late
                        .push(self.now - (request.due.as_millis() - at(0).as_millis()));
                }
                let takes = match request.name.as_str().starts_with("silent") {
                    true => SILENCE,
                    false => ANSWER,
                };
                self.count += 1;
                self.running.insert((self.now + takes, self.count), turn);
            }
        }
    }

    fn end(&mut self, turn: Turn) {
        let name = turn.request.name.clone();
        let is_silent = name.as_str().starts_with("silent");
        self.fairness.ended(turn, is_silent);
        let v4 = match is_silent {
            true => FamilyOutcome::Failed(Failure::Timeout),
            false => FamilyOutcome::Addresses {
                addresses: [(A.parse().unwrap(), TTL)].into_iter().collect(),
                at: at(self.now),
                complete: true,
            },
        };
        let v6 = match is_silent {
            true => FamilyOutcome::Failed(Failure::Timeout),
            false => FamilyOutcome::NoData,
        };
        let result = LookupResult {
            name: name.clone(),
            started: at(self.now - ANSWER),
            finished: at(self.now),
            v4,
            v6,
        };
        self.controller.round(&result, at(self.now));
        if !is_silent {
            self.answered.push(name);
        }
    }

    /// Runs until the name has an answer, and returns the milliseconds.
    async fn until_answered(&mut self, name: &str) -> i64 {
        let (name, start) = (DnsName::parse(name).unwrap(), self.now);
        while !self.answered.contains(&name) {
            assert!(
                self.now < start + 60_000,
                "{name} has no answer in a minute"
            );
            self.pass(1).await;
        }
        self.now - start
    }

    /// Runs for so many seconds, and returns the 99th percentile of the lateness of refreshes.
    async fn lateness(&mut self, seconds: i64) -> i64 {
        self.late.clear();
        self.pass(seconds * 1000).await;
        self.late.sort_unstable();
        assert!(self.late.len() > 500, "{}", self.late.len());
        self.late[self.late.len() * 99 / 100]
    }
}

#[tokio::test(start_paused = true)]
async fn eight_thousand_silent_names_of_a_namespace_hold_up_no_other() {
    let mut world = World::new();
    world.want("team", "known", 500);
    world.pass(5000).await;
    let alone = world.lateness(20).await;

    world.want("silent", "silent", 8000);
    world.pass(10).await;
    world.want("team", "new", 1);
    let first = world.until_answered("new0.example.com").await;
    assert!(first < 1000, "{first} ms");
    let beside = world.lateness(20).await;
    assert!(
        beside * 10 <= alone.max(1) * 12,
        "{beside} ms, and {alone} alone"
    );

    // All of them have been tried again by now.
    world.want("team", "later", 1);
    let then = world.until_answered("later0.example.com").await;
    assert!(then < 1000, "{then} ms");
}

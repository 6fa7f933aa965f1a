//! A leader and a standby that share a store: the state that a new leader keeps and discards.

use runtime::store::Event;

use crate::publish::publisher::{
    Publisher,
    tests::{World, answer, at, name, wanted},
};
use crate::{publish::write::WriteOutcome, rules::Source::EgressFirewall};
use names::FamilyOutcome;

const WWW: &str = "www.example.com";
const NAMES: [&str; 3] = [WWW, "*.example.com", "*.example.net"];

/// A leader with a store, and a standby.
struct Pair {
    leader: World,
    standby: Publisher,
    /// The leader cannot write.
    is_cut_off: bool,
}

impl Pair {
    fn new() -> Self {
        let mut leader = super::lookup::world();
        let mut standby = Publisher::new(leader.config.clone());
        standby.apply_event(EgressFirewall, Event::Synced(Vec::new()), at(0));
        leader.want(&NAMES);
        standby.set_rules(wanted(&NAMES, 0), at(0));
        let mut pair = Self {
            leader,
            standby,
            is_cut_off: false,
        };
        pair.run(1_000);
        pair
    }

    /// Both observe the answer to a client.
    fn tell(&mut self, asked: &str, ip: &str, client: &str) {
        let mut observation = answer(asked, ip, self.leader.now);
        observation.client = Some(client.parse().unwrap());
        self.leader.publisher.apply_answer(&observation);
        self.standby.apply_answer(&observation);
    }

    /// Answers the due look-ups with these addresses.
    fn look_up(&mut self, ips: &[&str]) {
        let now = at(self.leader.now);
        while let Some(request) = self.leader.publisher.next_due(now) {
            if request.name.is_wildcard() {
                let outcome = FamilyOutcome::NoData;
                self.leader.round(request.name.as_str(), outcome);
            } else {
                self.leader.answer(request.name.as_str(), ips);
            }
        }
        assert_eq!(self.standby.next_due(now), None);
    }

    /// Lets the leader write, and both see its writes, for so long.
    fn run(&mut self, millis: i64) {
        let end = self.leader.now + millis;
        while self.leader.now < end {
            self.leader.now += 10;
            self.step();
        }
    }

    fn step(&mut self) {
        let now = at(self.leader.now);
        self.leader.publisher.advance(now);
        self.standby.advance(now);
        assert!(self.standby.writes(now).is_empty());
        for write in self.leader.publisher.writes(now) {
            let outcome = if self.is_cut_off {
                WriteOutcome::Failed
            } else {
                self.leader.carry_out(&write)
            };
            if let WriteOutcome::Stored(object) = &outcome {
                let event = Event::Applied(object.as_ref().clone());
                self.standby.apply_event(EgressFirewall, event, now);
            }
            let publisher = &mut self.leader.publisher;
            publisher.apply_written(&write.key(), &write, outcome, now);
        }
    }

    fn change_lead(&mut self) {
        let now = at(self.leader.now);
        self.leader.publisher.set_leads(false, now);
        self.standby.set_leads(true, now);
        std::mem::swap(&mut self.leader.publisher, &mut self.standby);
    }

    fn www(&self) -> String {
        let all = self.leader.addresses();
        all.into_iter().find(|it| it.starts_with(WWW)).unwrap()
    }
}

/// A new leader has the times of a status, which may be ten minutes old, and removes no address by
/// them.
#[test]
fn address_leaves_after_take_over_look_up_and_ttl() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", "10.0.0.1");
    pair.run(1_000);
    let start = pair.leader.now;
    // Kept alive by look-ups of the leader that the status does not show.
    while pair.leader.now < start + 300_000 {
        pair.run(100);
        pair.look_up(&["1.1.1.1"]);
    }
    let mut taken = at(pair.leader.now);
    pair.change_lead();
    // Its server has another address now.
    pair.leader.now += 10;
    pair.look_up(&["2.2.2.2"]);
    loop {
        pair.run(100);
        pair.look_up(&["2.2.2.2"]);
        if !pair.www().contains("1.1.1.1") {
            break;
        }
        taken = at(pair.leader.now);
    }
    let lasted = taken.since(at(start + 300_000));
    assert!((34_000..60_000).contains(&lasted.as_millis()), "{lasted:?}");
}

#[test]
fn while_a_dns_server_is_not_heard_no_name_is_forgotten_as_idle() {
    for is_missing in [true, false] {
        let mut pair = Pair::new();
        let coverage = crate::flush::coverage::StreamCoverage {
            is_missing,
            ..Default::default()
        };
        let now = at(pair.leader.now);
        pair.leader.publisher.set_coverage(coverage, now);
        pair.tell("a.example.net", "1.1.1.1", "10.0.0.1");
        for _ in 0..25 * 360 {
            pair.leader.now += 9_000;
            pair.run(1_000);
            pair.look_up(&["1.1.1.1"]);
        }
        let names = &pair.leader.publisher.names;
        let known = names.get(&name("*.example.net.")).unwrap().list().names();
        assert_eq!(known.count(), usize::from(is_missing));
    }
}

/// A client queries every five minutes for two days, while the collectors are killed in turns and
/// the other one leads.
#[test]
fn name_of_a_client_survives_kills_of_each_collector() {
    let mut pair = Pair::new();
    let config = pair.leader.config.clone();
    let mut chance = fastrand::Rng::with_seed(7);
    let asked = "a.example.net";
    pair.tell(asked, "1.1.1.1", "10.0.0.1");
    pair.run(3_000);
    let end = pair.leader.now + 48 * 3_600_000;
    while pair.leader.now < end {
        for _ in 0..30 {
            pair.leader.now += 9_900;
            pair.run(100);
            pair.look_up(&["1.1.1.1"]);
            let all = pair.leader.addresses();
            let has_it = |it: &String| it.starts_with("*.example.net.") && it.contains("1.1.1.1");
            assert!(all.iter().any(has_it), "{}: {all:?}", pair.leader.now);
        }
        pair.tell(asked, "1.1.1.1", "10.0.0.1");
        if chance.u8(..10) > 0 {
            continue;
        }
        let mut fresh = Publisher::new(config.clone());
        let now = at(pair.leader.now);
        let objects = pair.leader.store.values().cloned().collect();
        fresh.apply_event(EgressFirewall, Event::Synced(objects), now);
        fresh.set_rules(wanted(&NAMES, 0), now);
        if chance.bool() {
            // The leader is killed: the standby leads after some seconds, and a new process is the
            // standby.
            pair.leader.publisher = std::mem::replace(&mut pair.standby, fresh);
            pair.leader.now += 14_000;
            pair.leader.publisher.set_leads(true, at(pair.leader.now));
        } else {
            pair.standby = fresh;
        }
    }
}

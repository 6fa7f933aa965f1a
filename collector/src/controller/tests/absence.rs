//! The end of a name's rules: the last status, and names that are held.

use std::collections::BTreeMap;

use kube::ResourceExt;
use proto::api::{DEGRADED, DnsName, DnsNameResolver};
use runtime::store::{Event, ObjectKey};

use crate::controller::{
    StatusController,
    tests::{World, answer, at, name, wanted},
};
use crate::{
    objects::{
        ManageObjects,
        publish::{Write, WriteOutcome},
    },
    rules::{Source, Wanted},
};

const WWW: &str = "www.example.com";
const MINUTE: i64 = 60_000;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("n{i}.example.com")).collect()
}

/// Names of existing EgressFirewalls, and of some that disappeared.
fn in_use(present: &[String], absent: &[String], listed: bool) -> Wanted {
    let all: Vec<&str> = present.iter().chain(absent).map(String::as_str).collect();
    let absent: BTreeMap<DnsName, bool> = absent.iter().map(|it| (name(it), listed)).collect();
    Wanted {
        absent,
        ..wanted(&all, 0)
    }
}

impl World {
    /// Settles without a limit on the number of writes.
    fn settle_all(&mut self) {
        loop {
            self.controller.tick(at(self.now));
            let writes = self.controller.writes(at(self.now));
            if writes.is_empty() {
                return;
            }
            for write in writes {
                let outcome = self.carry_out(&write);
                let now = at(self.now);
                self.controller.written(&write.key(), &write, outcome, now);
            }
        }
    }

    /// Lets time pass in steps of a second.
    fn pass(&mut self, millis: i64) {
        for _ in 0..millis / 1000 {
            self.now += 1000;
            self.settle_all();
        }
    }

    fn want_all(&mut self, present: &[String], absent: &[String], listed: bool) {
        let wanted = in_use(present, absent, listed);
        self.controller.want(&wanted.into(), at(self.now));
        self.settle_all();
    }

    /// The reason in the only entry of each status without an address.
    fn reasons(&self) -> Vec<String> {
        let statuses = self.store.values().filter_map(|object| {
            let names = &object.status.as_ref()?.resolved_names;
            let [only] = names.as_slice() else {
                return None;
            };
            let own = only.dns_name == object.spec.name && only.resolved_addresses.is_empty();
            let degraded = only.conditions.iter().find(|it| it.type_ == DEGRADED)?;
            (own && degraded.status == "True").then(|| degraded.reason.clone())
        });
        statuses.collect()
    }
}

/// A leader that starts with these objects, which it made itself.
fn restarted(objects: &[DnsNameResolver], world: &World) -> StatusController {
    let mut controller = StatusController::new(world.config.clone());
    controller.lead(true, at(world.now));
    controller.event(
        Source::EgressFirewall,
        Event::Synced(objects.to_vec()),
        at(world.now),
    );
    controller
}

fn known() -> World {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    world
}

#[test]
fn an_object_whose_rule_ended_says_so_before_it_is_deleted() {
    for asked in [WWW, "*.example.com"] {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[asked]);
        world.observe("www.example.com", "1.1.1.1");
        world.settle();
        world.want(&[]);
        assert_eq!(world.settle(), 1);
        assert_eq!(world.reasons(), ["NoRule"]);
        world.now += 1_900;
        assert_eq!(world.settle(), 0);
        world.now += 200;
        assert_eq!(world.settle(), 1);
        assert!(world.store.is_empty());
    }
}

#[test]
fn a_rule_that_comes_back_in_between_has_its_addresses_at_once() {
    let mut world = known();
    world.want(&[]);
    world.settle();
    world.want(&[WWW]);
    assert_eq!(world.settle(), 1);
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    assert_eq!(world.reasons(), [""; 0]);
    world.now += 5_000;
    assert_eq!(world.settle(), 0);
}

#[test]
fn an_object_that_was_changed_in_between_says_it_again() {
    let mut world = known();
    world.want(&[]);
    world.settle();
    // Another replica that has not seen the change writes an address.
    let mut object = world.store.values().next().unwrap().clone();
    object.status = Some(
        serde_json::from_value(serde_json::json!({"resolvedNames": [{
            "dnsName": "www.example.com.",
            "resolvedAddresses": [
                {"ip": "2.2.2.2", "ttlSeconds": 30, "lastLookupTime": "2027-01-15T08:00:00Z"},
            ],
        }]}))
        .unwrap(),
    );
    world.put(object);
    world.now += 2_000;
    // The deletion fails, and the new status is replaced.
    assert_eq!(world.settle(), 2);
    assert_eq!(world.reasons(), ["NoRule"]);
    world.now += 2_000;
    world.settle();
    assert!(world.store.is_empty());
}

#[test]
fn an_object_whose_status_cannot_be_written_is_not_deleted() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    let mut many = answer(WWW, "1.1.1.1", 0);
    many.addresses = (0..600_u32)
        .map(|i| ((0x0b00_0000 + i).to_be_bytes().into(), 86_400))
        .collect();
    world.controller.observe(&many);
    world.settle();
    world.want(&[]);
    for outcome in [
        WriteOutcome::Failed(None),
        WriteOutcome::Refused,
        WriteOutcome::TooLarge,
    ] {
        for _ in 0..20 {
            world.now += 10_000;
            world.controller.tick(at(world.now));
            let writes = world.controller.writes(at(world.now));
            let [write @ Write::Status(_)] = writes.as_slice() else {
                panic!("{writes:?}");
            };
            let now = at(world.now);
            world
                .controller
                .written(&write.key(), write, outcome.clone(), now);
        }
    }
    // The addresses stay in memory.
    assert_eq!(
        world.controller.names.entries[&name(WWW)]
            .memory
            .list()
            .addresses(),
        600
    );
    world.pass(20_000);
    assert!(world.store.is_empty());
}

#[test]
fn only_who_leads_takes_the_end_of_a_rule_back() {
    let mut world = known();
    let mut follower = StatusController::new(world.config.clone());
    let objects: Vec<_> = world.store.values().cloned().collect();
    follower.event(Source::EgressFirewall, Event::Synced(objects), at(0));
    follower.want(&wanted(&[WWW], 0).into(), at(0));
    world.want(&[]);
    world.settle();
    let ended = world.store.values().next().unwrap().clone();
    follower.event(Source::EgressFirewall, Event::Applied(ended), at(world.now));
    follower.observe(&answer(WWW, "2.2.2.2", world.now));
    follower.tick(at(world.now));
    assert!(follower.writes(at(world.now)).is_empty());
    // It has kept everything: once it leads, it writes all addresses.
    follower.lead(true, at(world.now));
    world.controller = follower;
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
}

#[test]
fn after_a_restart_an_ended_rule_status_says_nothing_about_addresses() {
    let mut world = known();
    world.want(&[]);
    world.settle();
    let objects: Vec<_> = world.store.values().cloned().collect();
    world.controller = restarted(&objects, &world);
    world.now += 1_000;
    world.want(&[WWW]);
    world.settle();
    assert_eq!(world.reasons(), [""; 0]);
    assert_eq!(world.addresses(), ["www.example.com."]);
    world.controller.tick(at(world.now));
    world.observe(WWW, "1.1.1.1");
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
}

#[test]
fn few_names_of_egress_firewalls_that_went_are_believed_to_be_away() {
    // (existing names, absent names, whether these are held)
    for (present, absent, is_held) in [
        (90, 10, false),
        (89, 11, true),
        (10, 10, false),
        (3, 3, false),
        (2, 3, true),
        (0, 1, true),
        (475, 25, false),
        (474, 26, true),
    ] {
        let mut world = World::new(ManageObjects::Auto);
        let all = names(0..present + absent);
        world.want_all(&all, &[], false);
        assert_eq!(world.store.len(), present + absent);
        let (stay, go) = all.split_at(present);
        world.want_all(stay, go, false);
        world.pass(60_000);
        assert_eq!(world.store.len(), present + absent, "before a list");
        world.want_all(stay, go, true);
        world.pass(30_000);
        let left = if is_held { present + absent } else { present };
        assert_eq!(world.store.len(), left, "{present} {absent}");
        let held = if is_held { absent } else { 0 };
        assert_eq!(world.controller.in_use.held(at(world.now)).0, held);
        // The absence of their EgressFirewalls is accepted.
        world.want_all(stay, &[], false);
        world.pass(3_000);
        assert_eq!(world.store.len(), present);
        assert_eq!(world.controller.in_use.held(at(world.now)).0, 0);
    }
}

#[test]
fn those_of_the_last_hour_count() {
    let mut world = World::new(ManageObjects::Auto);
    let all = names(0..100);
    world.want_all(&all, &[], false);
    world.want_all(&all[8..], &all[..8], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 92);
    world.want_all(&all[11..], &all[8..11], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 92);
    world.want_all(&all[8..], &[], true);
    world.now += 60 * MINUTE;
    world.want_all(&all[11..], &all[8..11], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 89);
}

#[test]
fn all_goes_on_for_a_name_that_is_held() {
    let mut world = known();
    let held = [WWW.to_owned()];
    world.want_all(&[], &held, true);
    world.pass(20_000);
    world.observe(WWW, "2.2.2.2");
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
    let (count, some) = world.controller.in_use.held(at(world.now));
    assert_eq!((count, some), (1, vec![name(WWW)]));
    world.want(&[WWW]);
    assert_eq!(world.controller.in_use.held(at(world.now)).0, 0);
}

#[test]
fn an_egress_firewall_that_comes_back_has_its_names_again() {
    let mut world = World::new(ManageObjects::Auto);
    let all = names(0..20);
    world.want_all(&all, &[], false);
    world.want_all(&all[4..], &all[..4], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 16);
    // The task of the EgressFirewalls has not accepted it yet.
    world.want_all(&all[4..], &all[..4], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 16);
    world.want_all(&all, &[], false);
    world.pass(1_000);
    assert_eq!(world.store.len(), 20);
}

/// A leader that starts with objects of so many names, of which only these are in rules.
fn started(objects: usize, used: usize) -> World {
    let mut world = World::new(ManageObjects::Auto);
    let all = names(0..objects);
    world.want_all(&all, &[], false);
    let objects: Vec<_> = world.store.values().cloned().collect();
    world.controller = restarted(&objects, &world);
    world.want_all(&all[..used], &[], false);
    world
}

#[test]
fn objects_that_no_rule_uses_at_the_start_count_as_gone() {
    let mut few = started(20, 12);
    few.pass(4_000);
    assert_eq!(few.store.len(), 20);
    few.pass(5_000);
    assert_eq!(few.store.len(), 12);
    let mut many = started(100, 60);
    many.pass(10 * MINUTE - 1_000);
    assert_eq!(many.store.len(), 100);
    assert_eq!(many.controller.in_use.held(at(many.now)).0, 40);
    many.pass(5_000);
    assert_eq!(many.store.len(), 60);
}

#[test]
fn the_delay_begins_anew_when_a_store_was_out_of_sync() {
    let mut world = started(100, 60);
    world.pass(9 * MINUTE);
    let names = in_use(&names(0..60), &[], false);
    let out_of_sync = Wanted {
        in_sync: false,
        ..names.clone()
    };
    world.controller.want(&out_of_sync.into(), at(world.now));
    world.pass(5 * MINUTE);
    world.controller.want(&names.into(), at(world.now));
    world.pass(10 * MINUTE - 1_000);
    assert_eq!(world.store.len(), 100);
    world.pass(5_000);
    assert_eq!(world.store.len(), 60);
}

#[test]
fn unread_rules_hold_possible_names_for_ten_minutes_and_no_others() {
    let mut world = started(20, 12);
    let unknown = |used: &[String]| Wanted {
        unknown_rules: true,
        ..in_use(used, &[], false)
    };
    let all = names(0..20);
    world
        .controller
        .want(&unknown(&all[..12]).into(), at(world.now));
    world.pass(9 * MINUTE);
    assert_eq!(world.store.len(), 20);
    assert_eq!(world.controller.in_use.held(at(world.now)).0, 8);
    // An edit of another EgressFirewall ends the rule at once.
    world
        .controller
        .want(&unknown(&all[..10]).into(), at(world.now));
    world.pass(3_000);
    assert_eq!(world.store.len(), 18);
    world.pass(MINUTE);
    assert_eq!(world.store.len(), 10);
    assert_eq!(world.controller.in_use.held(at(world.now)).0, 0);
}

#[test]
fn an_object_goes_soon_once_all_rules_are_known() {
    let mut world = started(20, 12);
    let all = names(0..20);
    let unknown = Wanted {
        unknown_rules: true,
        ..in_use(&all[..12], &[], false)
    };
    world.controller.want(&unknown.into(), at(world.now));
    world.pass(MINUTE);
    world.want_all(&all[..12], &[], false);
    world.pass(4_000);
    assert_eq!(world.store.len(), 20);
    world.pass(4_000);
    assert_eq!(world.store.len(), 12);
}

#[test]
fn of_many_names_that_come_back_the_last_are_held() {
    let mut world = World::new(ManageObjects::Auto);
    let all = names(0..100);
    world.want_all(&all, &[], false);
    world.want_all(&all[40..], &all[..40], true);
    world.pass(20_000);
    for i in 1..=35 {
        let (back, away) = all[..40].split_at(i);
        let present: Vec<String> = back.iter().chain(&all[40..]).cloned().collect();
        world.want_all(&present, away, true);
        world.pass(1_000);
        assert_eq!(world.reasons(), [""; 0], "{i}");
    }
    // A name whose EgressFirewall disappears now does not count with those.
    let present: Vec<String> = all[..35].iter().chain(&all[41..]).cloned().collect();
    world.want_all(&present, &all[35..41], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 99);
    world.pass(9 * MINUTE);
    assert_eq!(world.store.len(), 99);
    world.pass(MINUTE);
    assert_eq!(world.store.len(), 94);
}

#[test]
fn of_many_objects_without_rules_at_the_start_the_last_are_held() {
    let mut world = started(100, 60);
    for used in 61..=95 {
        world.pass(1_000);
        world.want_all(&names(0..used), &[], false);
    }
    world.pass(9 * MINUTE);
    assert_eq!(world.store.len(), 100);
    world.pass(MINUTE + 5_000);
    assert_eq!(world.store.len(), 95);
}

#[test]
fn many_that_come_back_all_at_once_leave_nothing_behind() {
    let mut world = World::new(ManageObjects::Auto);
    let all = names(0..100);
    world.want_all(&all, &[], false);
    world.want_all(&all[40..], &all[..40], true);
    world.pass(20_000);
    world.want_all(&all, &[], false);
    world.pass(20_000);
    world.want_all(&all[5..], &all[..5], true);
    world.pass(5_000);
    assert_eq!(world.store.len(), 95);
}

#[test]
fn objects_that_are_not_ours_are_neither_counted_nor_deleted() {
    let mut world = World::new(ManageObjects::Auto);
    let spec = proto::api::DnsNameResolverSpec {
        name: "foreign.example.com.".to_owned(),
    };
    let foreign = world.put(DnsNameResolver::new("foreign", spec));
    assert_eq!(foreign.name_any(), "foreign");
    world
        .controller
        .event(Source::EgressFirewall, Event::Applied(foreign), at(0));
    world.want(&[]);
    world.pass(11 * MINUTE);
    assert_eq!(world.controller.in_use.held(at(world.now)).0, 0);
    let key = ObjectKey {
        namespace: "ovn".to_owned(),
        name: "foreign".to_owned(),
    };
    assert!(world.store.contains_key(&key));
}

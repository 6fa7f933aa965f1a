//! The end of a name's rules: its object and its addresses stay for ten minutes.

use runtime::store::Event;

use crate::publish::publisher::{
    Publisher,
    tests::{World, at, lookup::world as world_with_lookups, wanted},
};
use crate::{publish::ManageObjects, rules::Wanted};

const WWW: &str = "www.example.com";
const MINUTE: i64 = 60_000;

fn known() -> World {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    world.observe(WWW, "1.1.1.1");
    world.settle();
    world
}

impl World {
    fn pass(&mut self, millis: i64) {
        self.now += millis;
        self.settle();
    }

    fn loses_its_object_in_ten_minutes(&mut self) {
        self.pass(10 * MINUTE - 1_000);
        assert_eq!(self.store.len(), 1);
        self.pass(2_000);
        assert!(self.store.is_empty());
    }
}

#[test]
fn object_without_a_rule_is_deleted_after_ten_minutes() {
    let mut world = known();
    world.want(&[]);
    assert_eq!(world.settle(), 0);
    world.loses_its_object_in_ten_minutes();
    assert!(world.publisher.names.is_empty());
}

#[test]
fn rule_that_comes_back_within_ten_minutes_has_its_addresses() {
    let mut world = world_with_lookups();
    world.want(&[WWW]);
    world.settle();
    let answer = |world: &mut World| {
        for asked in world.due() {
            world.answer(asked.trim_end_matches('.'), &["1.1.1.1"]);
        }
        world.settle();
    };
    answer(&mut world);
    world.want(&[]);
    // The name is still looked up.
    for _ in 0..9 * 60 {
        world.pass(1_000);
        answer(&mut world);
        assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    }
    world.want(&[WWW]);
    for _ in 0..9 * 60 {
        world.pass(1_000);
        answer(&mut world);
        assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    }
}

#[test]
fn rule_back_after_a_restart_has_its_names_looked_up() {
    let mut before = known();
    let object = before.store.pop_first().unwrap().1;
    let mut world = world_with_lookups();
    let object = world.put(object);
    let synced = Event::Synced(vec![object]);
    world.event(synced);
    world.want(&[]);
    for _ in 0..60 {
        world.pass(1_000);
        for asked in world.due() {
            world.answer(asked.trim_end_matches('.'), &["1.1.1.1"]);
        }
    }
    world.want(&[WWW]);
    world.settle();
    assert_eq!(world.due(), ["www.example.com."]);
}

#[test]
fn ten_minutes_begin_anew_when_a_store_was_out_of_sync() {
    let mut world = known();
    world.want(&[]);
    world.settle();
    world.pass(9 * MINUTE);
    let out_of_sync = Wanted {
        in_sync: false,
        ..wanted(&[], 0)
    };
    world.publisher.set_rules(out_of_sync, at(world.now));
    world.pass(5 * MINUTE);
    world.want(&[]);
    world.settle();
    world.loses_its_object_in_ten_minutes();
}

#[test]
fn after_restart_object_without_rule_stays_for_ten_minutes() {
    let mut world = known();
    let objects = world.store.values().cloned().collect();
    world.publisher = Publisher::new(world.config.clone());
    world.publisher.set_leads(true, at(world.now));
    let synced = Event::Synced(objects);
    world.event(synced);
    world.pass(MINUTE);
    world.want(&[]);
    world.settle();
    world.loses_its_object_in_ten_minutes();
}

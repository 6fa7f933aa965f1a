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
}

/// The ten minutes begin anew when the rules could not be read, and with another process.
#[test]
fn object_without_a_rule_is_deleted_after_ten_minutes() {
    let before: [fn(&mut World); 3] = [
        |_| {},
        |world| {
            world.want(&[]);
            world.pass(9 * MINUTE);
            let out_of_sync = Wanted {
                in_sync: false,
                ..wanted(&[], 0)
            };
            world.publisher.set_rules(out_of_sync, at(world.now));
            world.pass(5 * MINUTE);
        },
        |world| {
            let objects = world.store.values().cloned().collect();
            world.publisher = Publisher::new(world.config.clone());
            world.publisher.set_leads(true, at(world.now));
            world.event(Event::Synced(objects));
            world.pass(MINUTE);
        },
    ];
    for before in before {
        let mut world = known();
        before(&mut world);
        world.want(&[]);
        assert_eq!(world.settle(), 0);
        world.pass(10 * MINUTE - 1_000);
        assert_eq!(world.store.len(), 1);
        world.pass(2_000);
        assert!(world.store.is_empty() && world.publisher.names.is_empty());
    }
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
    for _ in 0..2 * 60 {
        world.pass(1_000);
        answer(&mut world);
        assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1"]);
    }
}

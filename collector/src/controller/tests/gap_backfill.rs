//! Look-ups after lost answers, in the controller.

use crate::controller::tests::{at, lookup::world, name};
use crate::{controller::tests::World, objects::ManageObjects, observe::Backfill};

fn anything() -> Backfill {
    Backfill {
        anything: true,
        ..Backfill::default()
    }
}

fn lost(names: &[&str]) -> Backfill {
    Backfill {
        names: names.iter().map(|text| name(text)).collect(),
        anything: false,
    }
}

/// A world with `n0.example.com` to `n9.example.com`. The last one was seen last, and all live
/// long.
fn known() -> World {
    let mut world = world();
    let names: Vec<String> = (0..10).map(|i| format!("n{i}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.want(&names);
    world.now += 1000;
    world.due();
    for name in names {
        world.now += 100;
        world.answer(name, &["192.0.2.1"]);
    }
    world.settle();
    // A name is not looked up again so soon after its last look-up.
    world.now += 10_000;
    assert!(world.due().is_empty());
    world
}

fn missed(world: &mut World, missing: Backfill) {
    world.controller.missed(missing, at(world.now));
    world.controller.tick(at(world.now));
}

#[test]
fn after_a_gap_all_wanted_names_are_looked_up_in_10_s_latest_seen_first() {
    let mut world = known();
    missed(&mut world, anything());
    for i in (0..10).rev() {
        assert_eq!(world.due(), [format!("n{i}.example.com.")], "{i}");
        world.now += 1000;
    }
    assert!(world.due().is_empty(), "each of them once");
}

#[test]
fn evicted_names_are_looked_up_after_a_gap_only_for_a_lost_answer() {
    for (others, expected) in [
        (vec![], ["gap.example.com.", "lost.example.com."].as_slice()),
        (
            vec!["a.example.com", "b.example.com"],
            &["lost.example.com."],
        ),
    ] {
        let mut world = World::with(ManageObjects::Auto, |config| {
            config.limits.lookups = true;
            config.limits.names_per_wildcard = 2;
        });
        world.want(&["*.example.com"]);
        world.now += 1000;
        world.due();
        let find = |world: &mut World, name: &str| {
            world.now += 1;
            world.observe(name, "192.0.2.1");
            world.settle();
        };
        find(&mut world, "gap.example.com");
        find(&mut world, "lost.example.com");
        let missing = Backfill {
            anything: true,
            ..lost(&["lost.example.com"])
        };
        missed(&mut world, missing);
        for name in others {
            find(&mut world, name);
        }
        world.now += 10_000;
        world.controller.tick(at(world.now));
        assert_eq!(world.due(), expected);
    }
}

#[test]
fn backfill_look_ups_continue_when_the_lead_changes() {
    for leads in [true, false] {
        let mut world = known();
        world.controller.lead(leads, at(world.now));
        world.settle();
        missed(&mut world, anything());
        assert_eq!(
            world.due().len(),
            usize::from(leads),
            "a standby asks nobody"
        );
        for leads in [false, true] {
            world.controller.lead(leads, at(world.now));
        }
        world.controller.tick(at(world.now));
        let mut asked = world.due();
        for _ in 0..10 {
            world.now += 1000;
            asked.extend(world.due());
        }
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), 10 - usize::from(leads), "{asked:?}");
    }
}

#[test]
fn gaps_that_follow_each_other_are_one_and_many_are_rare() {
    let mut world = known();
    let asked = |world: &mut World| {
        missed(world, anything());
        let due = world.due();
        for name in &due {
            world.answer(name, &["192.0.2.1"]);
        }
        world.now += 500;
        due.len()
    };
    // Ten names in each backfill; their own expiry, every 30 s, causes look-ups too.
    let minutes = |world: &mut World, minutes: usize| -> usize {
        (0..minutes * 120).map(|_| asked(world)).sum()
    };
    let first = minutes(&mut world, 1);
    assert!((50..=80).contains(&first), "{first}");
    minutes(&mut world, 9);
    let later = minutes(&mut world, 10);
    assert!((200..=320).contains(&later), "{later}");
}

#[test]
fn a_gap_before_the_names_are_known_waits_for_them() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    missed(&mut world, anything());
    assert_eq!(world.controller.next_wake(), None);
    world.want(&["www.example.com"]);
    assert!(world.controller.next_wake().is_some());
}

#[test]
fn a_lost_answer_is_asked_for_at_once() {
    let mut world = known();
    missed(&mut world, lost(&["n3.example.com", "nobody.example.org"]));
    assert_eq!(world.due(), ["n3.example.com."]);
    world.answer("n3.example.com", &["192.0.2.77"]);
    world.settle();
    let entry = "n3.example.com. 192.0.2.1 192.0.2.77".to_owned();
    assert!(world.addresses().contains(&entry));
}

#[test]
fn a_lost_wildcard_answer_is_looked_up_even_for_an_unknown_name() {
    let mut world = world();
    world.want(&["*.example.com"]);
    world.now += 1000;
    world.due();
    missed(&mut world, lost(&["new.example.com"]));
    assert_eq!(world.due(), ["new.example.com."]);
    world.answer("new.example.com", &["192.0.2.1"]);
    world.settle();
    assert_eq!(world.addresses(), ["*.example.com. 192.0.2.1"]);
    // A name that does not exist leaves no entry behind.
    missed(&mut world, lost(&["gone.example.com"]));
    assert_eq!(world.due(), ["gone.example.com."]);
    world.round("gone.example.com", crate::lookup::FamilyOutcome::NoData);
    assert_eq!(
        world
            .controller
            .names
            .lookups
            .due(&name("gone.example.com")),
        None
    );
}

#[test]
fn lost_answers_for_made_up_names_take_bounded_memory_and_leave_none() {
    let mut world = world();
    world.want(&["*.example.com"]);
    world.now += 1000;
    world.due();
    let idle = world.controller.names.lookups.len();
    let many = |round: usize| -> Vec<String> {
        (0..1000)
            .map(|i| format!("r{round}-{i}.example.com"))
            .collect()
    };
    for round in 0..50 {
        let names = many(round);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        missed(&mut world, lost(&names));
    }
    let waiting = world.controller.names.lookups.len() - idle;
    assert!((1000..10_000).contains(&waiting), "{waiting}");
    // A look-up that begins makes room.
    let asked = world.due();
    assert!(!asked.is_empty());
    for name in &asked {
        world.round(name, crate::lookup::FamilyOutcome::NoData);
    }
    let left = world.controller.names.lookups.len() - idle;
    assert_eq!(left, waiting - asked.len());
    missed(&mut world, lost(&["after.example.com"]));
    assert_eq!(world.controller.names.lookups.len(), left + idle + 1);
    // After a step of the clock these names have no other reason for a look-up.
    world.controller.gap(at(world.now));
    assert_eq!(world.controller.names.lookups.len(), idle);
    missed(&mut world, lost(&["after.example.com"]));
    assert_eq!(world.controller.names.lookups.len(), idle + 1);
}

#[test]
fn without_look_ups_nothing_is_asked() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.observe("www.example.com", "192.0.2.1");
    missed(&mut world, anything());
    missed(&mut world, lost(&["www.example.com"]));
    world.now += 20_000;
    world.controller.tick(at(world.now));
    assert!(world.due().is_empty());
}

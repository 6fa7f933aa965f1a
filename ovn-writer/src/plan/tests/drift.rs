//! Changes of other clients, and their repairs.

use super::*;

fn settled() -> World {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1", "10.0.0.2"]]));
    world.settle();
    world
}

#[test]
fn a_set_that_is_undone_again_and_again_waits_but_never_over_a_second() {
    // Another client empties it whenever it has members, or adds wrong ones.
    for is_missing in [true, false] {
        let undo = |world: &mut World| {
            for row in world.model.rows.values_mut() {
                if is_missing {
                    row.addresses.clear();
                } else {
                    row.addresses.insert("10.6.6.6".to_owned());
                }
            }
        };
        let mut world = settled();
        let start = world.now;
        let mut repairs = Vec::new();
        while repairs.len() < 15 {
            undo(&mut world);
            if world.work() > 0 {
                repairs.push((world.now - start).as_millis());
            } else {
                world.now = world.sync.next_timer().unwrap();
            }
        }
        assert_eq!(repairs[..6], [0, 0, 0, 0, 0, 50]);
        assert!(
            repairs.windows(2).all(|pair| pair[1] - pair[0] <= 1000),
            "{repairs:?}"
        );
        // A change of the store never waits.
        world.store(whole(&[&["10.0.0.3"]]));
        world.work();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.3"]);
        // A quiet minute resets the back-off.
        world.settle();
        world.now += Duration::from_secs(60);
        for _ in 0..5 {
            undo(&mut world);
            assert_eq!(world.work(), 1);
        }
    }
}

#[test]
fn a_set_that_is_destroyed_again_and_again_is_missing_for_50_ms_at_most() {
    let mut world = settled();
    let start = world.now;
    let mut made = Vec::new();
    while made.len() < 15 {
        world.model.rows.clear();
        if world.work() > 0 {
            made.push((world.now - start).as_millis());
        } else {
            world.now = world.sync.next_timer().unwrap();
        }
    }
    assert_eq!(made[..7], [0, 0, 0, 0, 0, 50, 100]);
    assert!(
        made.windows(2).all(|pair| pair[1] - pair[0] <= 50),
        "{made:?}"
    );
}

#[test]
fn set_under_the_name_as_written_keeps_what_others_put_in() {
    const WRITTEN: &str = "WWW.example.com";
    let mut model = model::Model::default();
    let row = world::foreign(
        DEFAULT_NETWORK_CONTROLLER,
        WRITTEN,
        Family::V4,
        &["10.0.0.9"],
    );
    model.insert(row);
    let mut world = World::on(policy(), model);
    world.store(whole(&[&["10.0.0.1", "10.0.0.2"]]));
    world.settle();
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.9"];
    assert_eq!(world.addresses(WRITTEN, "v4"), all);
    assert!(world.rows(W, "v4").is_empty(), "one is enough");
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    assert_eq!(world.addresses(WRITTEN, "v4"), ["10.0.0.1", "10.0.0.9"]);
}

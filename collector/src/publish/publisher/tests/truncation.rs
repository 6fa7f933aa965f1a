//! Truncated answers, in the publisher.

use crate::publish::publisher::tests::{at, lookup::world};
use names::FamilyOutcome;

const WWW: &str = "www.example.com";

const WWW_NAME: &str = "www.example.com.";

#[test]
fn truncated_answer_is_used_and_the_name_asked_at_once() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1"]);
    let mut cut = crate::publish::publisher::tests::answer(WWW, "2.2.2.2", world.now);
    cut.truncated = true;
    world.publisher.apply_answer(&cut);
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
    assert!(world.due().is_empty(), "that was our own");
    cut.client = Some("10.0.0.1".parse().unwrap());
    world.publisher.apply_answer(&cut);
    assert!(world.due().is_empty(), "it just was");
    world.now += 4999;
    assert!(world.due().is_empty());
    world.now += 1;
    assert_eq!(world.due(), [WWW_NAME], "nobody has to ask again for that");
}

#[test]
fn truncated_look_up_removes_nothing_and_is_retried() {
    let mut world = world();
    world.want(&[WWW]);
    world.now += 1000;
    world.due();
    world.answer(WWW, &["1.1.1.1", "2.2.2.2"]);
    world.settle();
    world.now += 32_000;
    for _ in 0..20 {
        assert_eq!(world.due(), [WWW_NAME]);
        let cut = FamilyOutcome::Addresses {
            addresses: [("1.1.1.1".parse().unwrap(), 30)].into_iter().collect(),
            at: at(world.now),
            complete: false,
        };
        world.round(WWW, cut);
        world.settle();
        assert_eq!(world.addresses(), ["www.example.com. 1.1.1.1 2.2.2.2"]);
        world.now += 4_900;
        world.settle();
        assert!(world.due().is_empty());
        world.now += 100;
    }
}

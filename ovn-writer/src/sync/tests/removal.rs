//! When addresses and rows go, and when they do not.

use super::{
    model::Model,
    world::{STORE, foreign, made_for},
    *,
};
use crate::desired;

const DELAY: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_first_reading_of_the_store_takes_nothing_out() {
    let rows = [
        foreign(DEFAULT_NETWORK_CONTROLLER, W, Family::V4, &["10.0.0.1"]),
        foreign(DEFAULT_NETWORK_CONTROLLER, W, Family::V6, &["2001:db8::1"]),
    ];
    for first in [
        vec![],
        vec![object("dns-1", W, &[])],
        vec![object("dns-1", W, &[&["garbage"]])],
    ] {
        let mut world = World::new();
        rows.iter().for_each(|row| world.model.insert(row.clone()));
        world.store(Event::Synced(first));
        assert_eq!(world.settle(), 0);
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        // The status comes, and is complete.
        world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        assert!(world.addresses(W, "v6").is_empty());
        // It loses its last address.
        world.store(Event::Applied(object("dns-1", W, &[&[]])));
        world.settle();
        assert!(world.addresses(W, "v4").is_empty());
    }
}

#[test]
fn rows_of_a_deleted_object_are_emptied_after_five_seconds_and_ours_deleted_after_a_minute() {
    let mut world = World::new();
    world.model.insert(foreign(
        DEFAULT_NETWORK_CONTROLLER,
        W,
        Family::V4,
        &["10.0.0.1"],
    ));
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world.settle();
    for _ in 0..2 {
        world.store(Event::Deleted(key("dns-1")));
        assert_eq!(world.pass(DELAY - Duration::from_millis(1)), 0);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        world.pass(Duration::from_millis(1));
        assert!(world.addresses(W, "v4").is_empty());
        assert!(world.addresses(W, "v6").is_empty());
        world.pass(MINUTE - Duration::from_millis(1));
        assert_eq!(world.rows(W, "v6").len(), 1);
        world.pass(Duration::from_millis(1));
        assert!(world.rows(W, "v6").is_empty(), "deleted, as it is ours");
        assert_eq!(world.rows(W, "v4").len(), 1, "it is not ours");
        assert_eq!(world.settle(), 0);
        assert_eq!(world.sync.differences(), Differences::default());
        world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
        world.settle();
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
    }
}

#[test]
fn a_row_that_something_refers_to_is_emptied_and_stays() {
    let mut world = World::new();
    let acl = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(MINUTE * 3);
    assert!(world.addresses(W, "v4").is_empty());
    // The minute begins when the last reference goes, and begins anew when there was one.
    world.model.acls.remove(&acl);
    world.pass(MINUTE / 2);
    let again = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.pass(MINUTE);
    world.model.acls.remove(&again);
    world.pass(MINUTE - Duration::from_millis(1));
    assert_eq!(world.rows(W, "v4").len(), 1);
    world.pass(Duration::from_millis(1));
    assert!(world.rows(W, "v4").is_empty());
    // A rule that comes late and names the sets gets them back at once.
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.work();
    assert!(world.addresses(W, "v4").is_empty());
    assert!(world.addresses(W, "v6").is_empty());
}

#[test]
fn a_row_that_is_no_longer_ours_is_not_deleted() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(DELAY);
    world.now += MINUTE;
    let operations = world.next().unwrap();
    // Somebody takes the rows over before the transaction arrives.
    for row in world.model.rows.values_mut() {
        row.external_ids.remove("ovn-writer/created");
    }
    let outcome = world.model.transact(&operations);
    world.tell();
    assert!(matches!(world.finish(outcome), Finished::Done(_)));
    assert_eq!(world.settle(), 0);
    assert_eq!(world.model.rows.len(), 2);
}

#[test]
fn an_object_that_is_made_again_takes_nothing_out() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(Duration::from_millis(20));
    let mut again = object("dns-1", W, &[]);
    again.metadata.uid = Some("2".into());
    world.store(Event::Applied(again.clone()));
    // ovn-kubernetes empties the set meanwhile.
    for row in world.model.rows.values_mut() {
        row.addresses.clear();
    }
    world.work();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.pass(DELAY - Duration::from_millis(21));
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.pass(Duration::from_secs(1));
    assert!(world.addresses(W, "v4").is_empty(), "nobody wrote it again");
}

#[test]
fn a_name_that_is_gone_is_remembered_but_not_for_ever() {
    // All in one transaction, as the model is slow.
    let (rows, bytes) = (usize::MAX, usize::MAX);
    let limits = BatchLimits { rows, bytes };
    let mut world = World::with(Policy { limits, ..policy() });
    let objects = (0..4200).map(|n| object(&format!("dns-{n}"), &format!("n{n}.example."), &[]));
    world.store(Event::Synced(objects.collect()));
    world.settle();
    for n in 0..4200 {
        world.store(Event::Deleted(key(&format!("dns-{n}"))));
    }
    world.settle();
    assert!(world.model.rows.is_empty());
    assert_eq!(world.sync.desired().names().count(), 4096);
}

fn left_behind(store: &str) -> Model {
    let mut model = Model::default();
    model.insert(made_for(store, W, Family::V4, &["10.0.0.1"]));
    model.insert(made_for(store, "b.example.", Family::V4, &["10.0.0.2"]));
    model
}

#[test]
fn rows_of_names_that_went_while_nobody_looked_go_if_the_store_is_the_right_one() {
    let kept = || vec![object("dns-2", "b.example.", &[&["10.0.0.2"]])];
    for (store, list, stays) in [
        (STORE, kept(), false),
        // Nothing says that the store is the right one.
        (STORE, vec![], true),
        (STORE, vec![object("dns-9", "stranger.example.", &[])], true),
        // They are of another store.
        ("kube/other", kept(), true),
    ] {
        let mut world = World::on(policy(), left_behind(store));
        world.store(Event::Synced(list.clone()));
        world.pass(DELAY - Duration::from_millis(1));
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        world.settle();
        assert_eq!(
            world.rows(W, "v4").len(),
            usize::from(stays),
            "{store} {list:?}"
        );
        let doubt = store == STORE && stays;
        assert_eq!(
            world.sync.doubt(),
            doubt.then_some(Doubt::Unconfirmed {
                absent: 2,
                asked: 2
            })
        );
        // Nor does a restart make a difference; but for a store of this name in which there is something again.
        if store == STORE && !list.is_empty() {
            continue;
        }
        let mut again = World::on(policy(), world.model.clone());
        again.store(Event::Synced(list.clone()));
        again.settle();
        assert_eq!(
            again.rows(W, "v4").len(),
            usize::from(stays),
            "{store} {list:?}"
        );
    }
}

/// `n0.example.` and so on, each with the object that it belongs to.
fn many(count: usize) -> Vec<DnsNameResolver> {
    let object = |n| {
        object(
            &format!("dns-{n}"),
            &format!("n{n}.example."),
            &[&["10.0.0.1"]],
        )
    };
    (0..count).map(object).collect()
}

/// A writer made the sets of these and ended; whether rules name them.
fn restarted(objects: &[DnsNameResolver], have_rules: bool) -> World {
    let mut world = World::new();
    world.store(Event::Synced(objects.to_vec()));
    world.settle();
    if have_rules {
        for object in objects {
            world.refer(DEFAULT_NETWORK_CONTROLLER, &object.spec.name);
        }
    }
    World::on(policy(), world.model)
}

/// How many names have addresses.
fn full(world: &World) -> usize {
    let rows = world.model.rows.values();
    rows.filter(|row| !row.addresses.is_empty()).count()
}

#[test]
fn one_name_in_common_does_not_make_a_store_the_right_one() {
    for have_rules in [false, true] {
        let all = many(20);
        let mut world = restarted(&all, have_rules);
        // So it is in another cluster, where somebody else uses one of the names too.
        let strangers = [object("dns-90", "stranger.example.", &[&["10.9.9.9"]])];
        let list = [&all[..1], &strangers].concat();
        world.store(Event::Synced(list));
        world.settle();
        assert_eq!(full(&world), 21);
        let doubt = Doubt::Unconfirmed {
            absent: 19,
            asked: 20,
        };
        assert_eq!(world.sync.doubt(), Some(doubt));
        // They come back one by one, as when all objects are made anew; two never do.
        for object in &all[1..18] {
            world.store(Event::Applied(object.clone()));
        }
        assert!(full(&world) > 18);
        world.settle();
        assert_eq!(world.sync.doubt(), None);
        assert_eq!(full(&world), 19);
    }
}

#[test]
fn a_row_of_somebody_else_does_not_make_a_store_the_right_one() {
    let all = many(3);
    let mut world = restarted(&all, false);
    let row = foreign(DEFAULT_NETWORK_CONTROLLER, W, Family::V4, &["10.0.0.9"]);
    world.model.insert(row);
    world.read();
    world.store(whole(&[&["10.0.0.9"]]));
    world.settle();
    assert_eq!(full(&world), 4);
    assert!(world.sync.doubt().is_some());
}

#[test]
fn names_may_go_by_the_dozen_while_nobody_looks_if_their_rules_go_too() {
    let all = many(20);
    for kept in [1, 5] {
        let mut world = restarted(&all, true);
        let acls: Vec<_> = world.model.acls.keys().copied().skip(kept).collect();
        let (late, early) = acls.split_at(3);
        early
            .iter()
            .for_each(|acl| drop(world.model.acls.remove(acl)));
        world.read();
        world.store(Event::Synced(all[..kept].to_vec()));
        world.settle();
        // Three rules take their time: with one name left, that looks as if the store were a wrong one.
        assert_eq!(full(&world), if kept == 1 { 20 } else { 5 });
        late.iter()
            .for_each(|acl| drop(world.model.acls.remove(acl)));
        world.work();
        world.settle();
        assert_eq!((full(&world), world.sync.doubt()), (kept, None));
        assert_eq!(world.model.rows.len(), kept * 2);
    }
}

#[test]
fn one_name_of_two_is_enough_and_none_of_one_is_not() {
    let all = many(2);
    let mut world = restarted(&all, true);
    world.store(Event::Synced(all[..1].to_vec()));
    world.settle();
    assert_eq!((full(&world), world.sync.doubt()), (1, None));
    let mut world = restarted(&all[..1], true);
    world.store(Event::Synced(vec![]));
    world.settle();
    assert_eq!(full(&world), 1);
    let doubt = Doubt::Unconfirmed {
        absent: 1,
        asked: 1,
    };
    assert_eq!(world.sync.doubt(), Some(doubt));
}

#[test]
fn rows_of_names_that_went_stay_while_an_object_does_not_decode() {
    let mut world = World::on(policy(), left_behind(STORE));
    world.store(Event::Undecodable([key("dns-1")].into()));
    world.store(Event::Synced(vec![object("dns-2", "b.example.", &[])]));
    assert_eq!(world.settle(), 1, "the missing row of the other family");
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
}

#[test]
fn allow_empty_lets_them_go() {
    let policy = Policy {
        desired: desired::Options {
            allow_empty: true,
            ..desired::Options::default()
        },
        ..policy()
    };
    let mut world = World::on(policy, left_behind(STORE));
    world.store(Event::Synced(vec![]));
    world.settle();
    assert!(world.model.rows.is_empty());
    assert_eq!(world.sync.doubt(), None);
}

#[test]
fn a_list_of_nothing_that_was_known_takes_nothing_out() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Synced(vec![object(
        "dns-9",
        "stranger.example.",
        &[],
    )]));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    assert_eq!(world.sync.doubt(), Some(Doubt::Missing(1)));
    world.store(whole(&[&["10.0.0.2"]]));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
    assert_eq!(world.sync.doubt(), None);
}

//! The removal of addresses and rows, and its limits.

use super::{
    model::Model,
    world::{STORE, foreign, made_for},
    *,
};
use crate::testing::without_addresses;

const DELAY: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_status_that_says_nothing_takes_nothing_out() {
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
        // The status arrives, and is complete.
        world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        assert!(world.addresses(W, "v6").is_empty());
        // The object is written again without a statement, as after a restore.
        world.store(Event::Applied(object("dns-1", W, &[&[]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        // It states that there is no address.
        world.store(Event::Applied(without_addresses("dns-1", W, "NXDOMAIN")));
        world.settle();
        assert!(world.addresses(W, "v4").is_empty());
    }
}

#[test]
fn a_status_that_lost_its_last_address_while_no_writer_ran_is_believed() {
    let row = made_for(STORE, W, Family::V4, &["10.0.0.1"]);
    for (reason, expected) in [("NXDOMAIN", &[][..]), ("NoRule", &["10.0.0.1"])] {
        let mut model = Model::default();
        model.insert(row.clone());
        let mut world = World::on(policy(), model);
        world.refer(DEFAULT_NETWORK_CONTROLLER, W);
        world.store(Event::Synced(vec![without_addresses("dns-1", W, reason)]));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), expected, "{reason}");
    }
}

#[test]
fn unused_rows_of_a_deleted_object_are_emptied_and_own_rows_deleted() {
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
        assert_eq!(world.pass(DELAY - MILLI), 0);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        world.pass(MILLI);
        assert!(world.addresses(W, "v4").is_empty());
        assert!(world.addresses(W, "v6").is_empty());
        world.pass(MINUTE - MILLI);
        assert_eq!(world.rows(W, "v6").len(), 1);
        world.pass(MILLI);
        assert!(world.rows(W, "v6").is_empty(), "deleted, as it is ours");
        assert_eq!(world.rows(W, "v4").len(), 1, "it is not ours");
        assert_eq!(world.settle(), 0);
        assert_eq!(world.sync.state().differences, Differences::default());
        world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
        world.settle();
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
    }
}

#[test]
fn object_and_rules_must_both_be_absent_for_five_seconds_unbroken() {
    let mut world = World::new();
    let acl = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(MINUTE);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.model.acls.remove(&acl);
    world.pass(DELAY - MILLI);
    let again = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.pass(MILLI);
    world.model.acls.remove(&again);
    world.pass(DELAY - MILLI);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    // The store cannot be read for a moment.
    world.store(Event::OutOfSync("x".into()));
    world.pass(MINUTE);
    world.store(Event::Synced(vec![]));
    world.pass(DELAY - MILLI);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.pass(MILLI);
    assert!(world.addresses(W, "v4").is_empty());
    world.settle();
    assert!(world.model.rows.is_empty());
    assert_eq!(
        world.sync.state().desired.names().count(),
        0,
        "it is forgotten"
    );
    // A later rule names no name of the store.
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    assert_eq!(world.settle(), 0);
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
    // Another installation takes the rows over before the transaction arrives.
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
    world.store(Event::Applied(again));
    // ovn-kubernetes empties the set meanwhile.
    for row in world.model.rows.values_mut() {
        row.addresses.clear();
    }
    world.work();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
}

/// `n0.example.` and so on, one object each.
pub(super) fn many(count: usize) -> Vec<DnsNameResolver> {
    let object = |n| {
        object(
            &format!("dns-{n}"),
            &format!("n{n}.example."),
            &[&["10.0.0.1"]],
        )
    };
    (0..count).map(object).collect()
}

/// A writer that created the sets of these, which rules use.
pub(super) fn in_use(objects: &[DnsNameResolver]) -> World {
    let mut world = World::new();
    world.store(Event::Synced(objects.to_vec()));
    world.settle();
    for object in objects {
        world.refer(DEFAULT_NETWORK_CONTROLLER, &object.spec.name);
    }
    world.settle();
    world
}

/// The same, followed by a restart of the writer.
fn restarted(objects: &[DnsNameResolver]) -> World {
    World::on(policy(), in_use(objects).model)
}

/// How many names have addresses.
pub(super) fn full(world: &World) -> usize {
    let rows = world.model.rows.values();
    rows.filter(|row| !row.addresses.is_empty()).count()
}

pub(super) fn is_suspect(world: &World) -> bool {
    world.sync.state().absence(world.now).is_suspect
}

#[test]
fn few_names_whose_objects_are_absent_for_ten_minutes_are_emptied() {
    let all = many(40);
    // In each way of removal, seen by this process or by an earlier one.
    for way in 0..3 {
        let mut world = match way {
            0 | 1 => in_use(&all),
            _ => restarted(&all),
        };
        if way == 1 {
            for n in 0..10 {
                world.store(Event::Deleted(key(&format!("dns-{n}"))));
            }
        } else {
            world.store(Event::Synced(all[10..].to_vec()));
        }
        world.pass(MINUTE * 10 - MILLI);
        assert_eq!(full(&world), 40);
        world.pass(MILLI);
        assert_eq!(full(&world), 30, "{way}");
        assert!(!is_suspect(&world));
        // The next one has to wait for an hour.
        world.store(Event::Deleted(key("dns-10")));
        world.pass(MINUTE * 60 - MILLI);
        assert_eq!(full(&world), 30);
        assert!(is_suspect(&world));
        world.pass(MILLI);
        assert!(!is_suspect(&world));
        world.pass(MINUTE * 10 - MILLI * 2);
        assert_eq!(full(&world), 30);
        world.pass(MILLI * 2);
        assert_eq!(full(&world), 29);
    }
}

#[test]
fn many_names_whose_objects_are_absent_are_never_emptied_by_time() {
    let all = many(40);
    for list in [vec![], all[11..].to_vec()] {
        for is_restarted in [false, true] {
            let mut world = match is_restarted {
                false => in_use(&all),
                true => restarted(&all),
            };
            world.store(Event::Synced(list.clone()));
            world.pass(MINUTE - MILLI);
            assert!(!is_suspect(&world));
            world.pass(MILLI);
            assert!(is_suspect(&world));
            world.pass(MINUTE * 600);
            assert_eq!(full(&world), 40);
            assert_eq!(
                world.sync.state().absence(world.now).names.len(),
                40 - list.len()
            );
            // The objects return one by one; in the end few are absent.
            for object in &all[..35] {
                world.store(Event::Applied(object.clone()));
                world.pass(Duration::from_millis(500));
            }
            assert_eq!(full(&world), 40);
            assert!(!is_suspect(&world));
            world.pass(MINUTE * 10);
            let gone = if list.is_empty() { 5 } else { 0 };
            assert_eq!(full(&world), 40 - gone, "those that never came back");
        }
    }
}

#[test]
fn of_few_names_at_most_half_go() {
    let all = many(3);
    let mut world = in_use(&all);
    world.store(Event::Deleted(key("dns-0")));
    world.store(Event::Deleted(key("dns-1")));
    world.pass(MINUTE * 60);
    assert_eq!(full(&world), 3);
    world.store(Event::Applied(all[0].clone()));
    world.pass(MINUTE * 10);
    assert_eq!(full(&world), 2);
}

#[test]
fn names_whose_rules_go_too_go_by_the_dozen() {
    let all = many(40);
    for is_restarted in [false, true] {
        let mut world = match is_restarted {
            false => in_use(&all),
            true => restarted(&all),
        };
        world.store(Event::Synced(vec![]));
        // ovn-kubernetes removes their rules later.
        world.pass(Duration::from_secs(30));
        assert_eq!(full(&world), 40);
        world.model.acls.clear();
        world.pass(DELAY);
        assert_eq!(full(&world), 0);
        assert!(!is_suspect(&world));
        world.settle();
        assert!(world.model.rows.is_empty());
    }
}

#[test]
fn many_names_whose_rules_ended_are_removed_though_still_referenced() {
    let all = many(40);
    let mut world = in_use(&all);
    for object in &all {
        let name = object.metadata.name.as_deref().unwrap();
        let ended = without_addresses(name, &object.spec.name, "NoRule");
        world.store(Event::Applied(ended));
        world.work();
        world.store(Event::Deleted(key(name)));
    }
    // One of them returns in time.
    world.pass(DELAY - MILLI);
    world.store(Event::Applied(object("dns-7", "n7.example.", &[])));
    assert_eq!(full(&world), 40);
    world.pass(MILLI);
    assert_eq!(full(&world), 1);
    assert_eq!(world.addresses("n7.example.", "v4"), ["10.0.0.1"]);
}

#[test]
fn in_a_managed_database_a_rule_that_ended_is_waited_for() {
    let all = many(4);
    let mut world = in_use(&all);
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, "n0.example.");
    world.settle();
    assert!(world.sync.state().is_managed());
    let ended = without_addresses("dns-0", "n0.example.", "NoRule");
    world.store(Event::Applied(ended));
    world.store(Event::Deleted(key("dns-0")));
    world.pass(MINUTE * 10 - MILLI);
    assert_eq!(full(&world), 4);
    world.pass(MILLI);
    assert_eq!(full(&world), 3);
}

#[test]
fn while_an_object_cannot_be_read_and_is_not_known_nothing_goes_by_time() {
    let all = many(40);
    let mut world = restarted(&all);
    world.store(Event::Undecodable([key("dns-99")].into()));
    world.store(Event::Synced(all[2..].to_vec()));
    world.pass(MINUTE * 60);
    assert_eq!(full(&world), 40);
    // An unused set is still emptied.
    let acl = *world.model.acls.keys().next().unwrap();
    world.model.acls.remove(&acl);
    world.pass(DELAY);
    assert_eq!(full(&world), 39);
    // The unreadable object may have been that of the other name, which is absent from now on.
    world.store(Event::Undecodable([].into()));
    world.pass(MINUTE * 10 - MILLI);
    assert_eq!(full(&world), 39);
    world.pass(MILLI);
    assert_eq!(full(&world), 38);
}

#[test]
fn an_administrator_may_permit_what_is_absent_now_and_once() {
    let all = many(40);
    let mut world = in_use(&all);
    world.store(Event::Synced(all[20..].to_vec()));
    world.pass(DELAY);
    assert_eq!(world.sync.allow_empty().len(), 20);
    world.work();
    assert_eq!(full(&world), 20);
    // Later absences have no permission.
    world.store(Event::Synced(vec![]));
    world.pass(MINUTE * 60);
    assert_eq!(full(&world), 20);
    assert!(is_suspect(&world));
}

#[test]
fn allow_empty_from_the_start_covers_initial_absences_until_its_time() {
    let all = many(40);
    for (seconds, list, expected) in [
        (60, &all[..5], 5),
        (60, &[], 0),
        // The time was over when the store had been read.
        (2, &all[..5], 40),
    ] {
        let model = in_use(&all).model;
        let mut world = World::on(policy(), model);
        let until = world.now + Duration::from_secs(seconds);
        let policy = Policy {
            allow_empty_until: Some(until),
            ..policy()
        };
        world.sync = Reconciler::new(policy);
        world.read();
        world.now += Duration::from_secs(3);
        world.store(Event::Synced(list.to_vec()));
        world.pass(DELAY - MILLI);
        assert_eq!(full(&world), 40);
        world.pass(MILLI);
        assert_eq!(full(&world), expected);
        world.store(Event::Synced(vec![]));
        world.pass(MINUTE * 60);
        assert_eq!(full(&world), expected, "it holds once");
    }
}

#[test]
fn a_database_restored_under_a_running_writer_is_treated_as_at_start() {
    let all = many(40);
    let restored = in_use(&all).model;
    let mut world = World::new();
    world.store(Event::Synced(vec![]));
    world.settle();
    world.model = restored;
    world.read();
    world.pass(MINUTE * 60);
    assert_eq!(full(&world), 40);
    assert!(is_suspect(&world));
}

#[test]
fn rows_of_another_store_are_left_alone_unless_it_is_named() {
    let mut model = Model::default();
    model.insert(made_for("kube/other", W, Family::V4, &["10.0.0.1"]));
    model.insert(made_for(
        "kube/other",
        "b.example.",
        Family::V4,
        &["10.0.0.2"],
    ));
    let list = || vec![object("dns-2", "b.example.", &[&["10.0.0.3"]])];
    let mut world = World::on(policy(), model.clone());
    world.store(Event::Synced(list()));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    // Both installations fill the set of a common name.
    assert_eq!(
        world.addresses("b.example.", "v4"),
        ["10.0.0.2", "10.0.0.3"]
    );
    assert_eq!(
        world.sync.state().other_stores(&world.replica),
        [("kube/other".to_owned(), 2)].into()
    );
    assert_eq!(
        world.sync.state().differences,
        Differences {
            foreign_addresses: 1,
            ..Differences::default()
        }
    );
    world.store(Event::Deleted(key("dns-2")));
    world.settle();
    assert_eq!(world.addresses("b.example.", "v4"), ["10.0.0.2"]);

    let mut taken_over = policy();
    taken_over.options.former_stores = vec!["kube/other".to_owned()];
    let mut world = World::on(taken_over, model);
    world.store(Event::Synced(list()));
    world.settle();
    assert!(world.rows(W, "v4").is_empty(), "nothing refers to it");
    assert_eq!(world.addresses("b.example.", "v4"), ["10.0.0.3"]);
    assert!(world.sync.state().other_stores(&world.replica).is_empty());
}

//! Explanations of names and addresses.

use proto::facts::{Asked, DatabaseFacts, Idle, Query, SetsExplained};

use super::*;
use crate::facts::{Sides, WriterStatus};

fn sides(world: &World) -> Sides<'_> {
    Sides {
        sync: &world.sync,
        replica: Some(&world.replica),
        idle: None,
        now: world.now,
    }
}

fn explain(world: &World, about: &str, namespace: Option<&str>) -> SetsExplained {
    let asked = Asked::new(about, namespace.map(str::to_owned));
    sides(world).explain(&asked)
}

fn query(name: &str) -> Query {
    Query {
        name: name.to_owned(),
        ..Query::all()
    }
}

fn status(sides: Sides<'_>, query: &Query) -> WriterStatus {
    sides.status(query, "unix:/run/nb.sock".to_owned())
}

fn reasons(world: &World, about: &str) -> Vec<String> {
    let reasons = explain(world, about, None).reasons;
    reasons.into_iter().map(|reason| reason.code).collect()
}

/// A settled world with a rule that names the sets.
fn settled() -> World {
    let mut world = World::new();
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(whole(&[&["10.0.0.1", "10.0.0.2"]]));
    world.pass(Duration::from_secs(5));
    world
}

#[test]
fn change_of_another_client_is_a_difference_until_it_is_repaired() {
    let mut world = settled();
    let row = world.model.rows.values_mut();
    for row in row.filter(|row| row.id("ip-family") == "v4") {
        row.addresses = [
            "10.0.0.2".to_owned(),
            "10.6.6.6".to_owned(),
            "\u{1b}[2J".to_owned(),
        ]
        .into();
    }
    world.tell();
    let before = explain(&world, W, None);
    let [difference] = before.names[0].differences.as_slice() else {
        panic!("{before:?}");
    };
    assert_eq!(difference.missing, ["10.0.0.1"]);
    assert_eq!(difference.surplus, ["10.6.6.6", "\u{1b}[2J"]);
    let row = before.names[0].rows.iter().find(|it| it.family == "v4");
    let foreign = row.unwrap().addresses.iter().find(|it| !it.is_wanted);
    let foreign = foreign.unwrap();
    assert_eq!(
        (foreign.address.to_string(), foreign.since_seconds),
        ("10.6.6.6".to_owned(), None)
    );
    assert_eq!(reasons(&world, "10.0.0.1"), ["NotWritten"]);
    assert_eq!(reasons(&world, "10.6.6.6"), ["Surplus"]);
    world.work();
    let after = explain(&world, W, None);
    assert!(after.names[0].differences.is_empty(), "{after:?}");
}

#[test]
fn address_in_no_set_is_explained() {
    let mut world = World::new();
    assert_eq!(reasons(&world, W), ["StoreUnread", "Unknown"]);
    world.store(whole(&[&["10.0.0.1", "127.0.0.1"]]));
    world.settle();
    // No rule refers to it.
    assert_eq!(reasons(&world, "10.0.0.1"), ["NoRule"]);
    assert_eq!(reasons(&world, "127.0.0.1"), ["Skipped"]);
    assert_eq!(reasons(&world, W), ["Skipped", "NoRule"]);
    assert_eq!(reasons(&world, "192.0.2.1"), ["Unknown"]);
    assert_eq!(reasons(&world, "other.example.com"), ["Unknown"]);
    assert_eq!(reasons(&world, "a_b.example.com"), ["InvalidName"]);
    let other = explain(&settled(), W, Some("team"));
    assert!(!other.is_there);
    assert_eq!(other.names[0].rows[0].rules_elsewhere, 1);
}

#[test]
fn the_last_new_addresses_have_their_rule_row_and_times() {
    let mut world = World::new();
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(whole(&[&["10.0.0.1"]]));
    world.now += Duration::from_millis(3);
    world.work();
    world.store(whole(&[&["10.0.0.1", "10.0.0.2"]]));
    world.work();
    // The repair of another client's change is no news.
    world
        .model
        .rows
        .values_mut()
        .for_each(|row| row.addresses.clear());
    world.work();
    let set = world::set_name(DEFAULT_NETWORK_CONTROLLER, W, Family::V4);
    let new: Vec<_> = world.sync.new_addresses.iter().cloned().collect();
    let seen: Vec<_> = new
        .iter()
        .map(|it| {
            assert_eq!((it.rule.as_str(), &*it.set), (W, set.as_str()));
            let took = it.committed - it.received;
            (it.address.to_string(), took.as_millis())
        })
        .collect();
    let expected = [("10.0.0.1".to_owned(), 3), ("10.0.0.2".to_owned(), 0)];
    assert_eq!(seen, expected);
    let many: Vec<_> = (0..1_500)
        .map(|n| format!("10.1.{}.{}", n / 250, n % 250))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    world.store(whole(&[&many]));
    world.work();
    let new: Vec<_> = world.sync.new_addresses.iter().collect();
    assert_eq!(new.len(), 1_000);
    assert_eq!(new[999].address.to_string(), "10.1.5.249");
}

#[test]
fn status_has_the_namespaces_of_rules_and_each_difference_as_a_problem() {
    let mut world = settled();
    let acl = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    let acl = world.model.acls.get_mut(&acl).unwrap();
    for (key, value) in [("owner-type", "EgressFirewall"), ("name", "team")] {
        let key = format!("k8s.ovn.org/{key}");
        acl.external_ids.insert(key, value.to_owned());
    }
    world.tell();
    world.work();
    let before = status(sides(&world), &query(""));
    assert_eq!(before.problems.listed, []);
    assert_eq!((before.facts.name_count, before.facts.objects), (1, 1));
    assert_eq!(before.facts.unreferenced, []);
    let database = DatabaseFacts {
        remote: "unix:/run/nb.sock".to_owned(),
        is_connected: true,
        rows: Some(2),
        is_managed: false,
    };
    assert_eq!(before.facts.database, database);
    for row in world.model.rows.values_mut() {
        row.addresses.clear();
    }
    world.tell();
    assert!(world.next().is_some());
    let after = status(sides(&world), &query(""));
    assert_eq!(after.facts.differences["missing_address"], 2);
    let set = &after.facts.sets[0];
    assert_eq!(set.difference.as_deref(), Some("2 missing, 0 too many"));
    assert!(set.is_being_written);
    assert_eq!((set.rules, &*set.namespaces), (2, &["team".to_owned()][..]));
    // What is about to be written is no problem.
    assert_eq!(after.problems.listed, []);
    let dry_run = Sides {
        idle: Some(Idle::DryRun),
        ..sides(&world)
    };
    let dry = status(dry_run, &query(""));
    let [problem] = dry.problems.listed.as_slice() else {
        panic!("{dry:?}");
    };
    assert_eq!((&*problem.code, &*problem.subject), ("SetDiffers", W));
    let of_team = Query {
        namespace: Some("team".to_owned()),
        ..query("")
    };
    assert_eq!(status(sides(&world), &of_team).facts.sets.len(), 2);
    let of_other = Query {
        namespace: Some("other".to_owned()),
        ..query("")
    };
    assert_eq!(status(sides(&world), &of_other).facts.sets, []);
}

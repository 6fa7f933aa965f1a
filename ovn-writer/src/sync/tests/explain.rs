//! Explanations of names and addresses.

use runtime::inspect::Asked;

use super::*;
use crate::desired::Filter;
use crate::explain::{Explanation, Idle, Selection, SetShown, Sets, SetsQuery, Sides, Snapshot};

fn sides(world: &World) -> Sides<'_> {
    Sides {
        sync: &world.sync,
        replica: Some(&world.replica),
        idle: None,
        now: world.now,
    }
}

fn explain(world: &World, about: &str, namespace: Option<&str>) -> Explanation {
    let asked = Asked::new(about, namespace.map(str::to_owned));
    Explanation::new(&asked, sides(world))
}

fn query(filter: &str) -> SetsQuery {
    SetsQuery {
        filter: filter.to_owned(),
        selection: Selection::default(),
        addresses: 2,
    }
}

/// For each set: family, desired and present addresses, and references.
fn counts(sets: &[SetShown]) -> Vec<(&str, usize, Option<usize>, usize)> {
    let count = |set: &SetShown| (set.family, set.wanted, set.present, set.rules);
    sets.iter().map(count).collect()
}

fn reasons(world: &World, about: &str) -> Vec<&'static str> {
    let reasons = explain(world, about, None).reasons;
    reasons.iter().map(|reason| reason.reason).collect()
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
fn an_address_in_a_set_is_told_with_the_row_the_rules_and_since_when() {
    let mut world = settled();
    world.now += Duration::from_secs(12);
    let explanation = explain(&world, "10.0.0.1", None);
    assert!(explanation.is_there && explanation.reasons.is_empty());
    let [name] = explanation.names.as_slice() else {
        panic!("{explanation:?}");
    };
    assert!(name.is_wanted && name.differences.is_none());
    let [row] = name.rows.as_slice() else {
        panic!("{name:?}");
    };
    let address = &row.addresses[0];
    assert_eq!(
        (address.address.as_str(), row.addresses.len()),
        ("10.0.0.1", 1)
    );
    let since = address.since_seconds.unwrap();
    assert!((12..=17).contains(&since), "{since}");
    assert_eq!(
        (row.family, row.rules.len(), row.rules[0].table),
        ("v4", 1, "ACL")
    );
    let text = explanation.text.join("\n");
    for part in [
        "10.0.0.1 is in a set that rules refer to.\nwww.example.com.: object ns/dns-1\n  row a",
        "\n    10.0.0.1: written ",
        "\n    ACL",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
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
    let before = explain(&world, W, None).text.join("\n");
    assert!(
        before.contains("different from the store:") && before.contains(" +10.0.0.1 -10.6.6.6"),
        "{before}"
    );
    let is_printable = |it| it == '\n' || (' '..='~').contains(&it);
    assert!(before.chars().all(is_printable), "{before}");
    assert!(
        before
            .contains("10.6.6.6: written before this run, or long ago; the store does not want it"),
        "{before}"
    );
    assert_eq!(reasons(&world, "10.0.0.1"), ["NotWritten"]);
    assert_eq!(reasons(&world, "10.6.6.6"), ["Surplus"]);
    world.work();
    let after = explain(&world, W, None);
    assert!(after.names[0].differences.is_none(), "{after:?}");
}

#[test]
fn what_is_in_no_set_says_why() {
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
    assert!(other.text[0].ends_with("is not in a set that rules refer to for namespace team."));
}

/// The pods have IPv4 addresses only.
#[test]
fn an_address_of_a_family_that_is_not_in_use_is_skipped() {
    let filter = Filter::new(vec!["10.128.0.0/14".parse().unwrap()]);
    let mut world = World::with(Policy::new(world::STORE, filter));
    world.store(whole(&[&["2001:db8::1"]]));
    world.settle();
    assert_eq!(reasons(&world, "2001:db8::1"), ["Skipped"]);
    assert_eq!(reasons(&world, W), ["Skipped"]);
    let text = explain(&world, W, None).text.join("\n");
    assert!(
        text.contains("no set may have: family-not-in-use"),
        "{text}"
    );
}

/// ovn-kubernetes makes only sets for IPv4 there, and the writer was not told of the networks.
#[test]
fn addresses_of_a_family_without_sets_say_so() {
    let mut world = World::with(Policy {
        is_managed: true,
        ..world::policy()
    });
    let expression = format!(
        "ip4.dst == ${}",
        world::set_name(DEFAULT_NETWORK_CONTROLLER, W, Family::V4)
    );
    world.model.insert_acl(model::ModelAcl {
        expression,
        ..model::ModelAcl::default()
    });
    world.store(whole(&[&["2001:db8::1"]]));
    world.settle();
    assert_eq!(world.sync.state().differences.count(), 0);
    for about in [W, "2001:db8::1"] {
        assert_eq!(reasons(&world, about), ["NoSet"], "{about}");
        let text = explain(&world, about, None).text.join("\n");
        assert!(
            text.contains("object ns/dns-1") && !text.contains("see the differences"),
            "{text}"
        );
    }
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
fn a_look_changes_nothing() {
    let (mut one, mut other) = (settled(), settled());
    for world in [&mut one, &mut other] {
        for row in world.model.rows.values_mut() {
            row.addresses.clear();
        }
        world.tell();
    }
    for about in [W, "10.0.0.1", "other.example.com"] {
        explain(&one, about, None);
    }
    assert_eq!(one.sync.state().differences, other.sync.state().differences);
    assert_eq!(one.sync.is_idle(), other.sync.is_idle());
    assert_eq!(
        one.next().map(|it| it.len()),
        other.next().map(|it| it.len())
    );
}

#[test]
fn however_many_names_hold_an_address_the_lines_are_few() {
    let mut world = World::new();
    let objects = (0..2_000).map(|i| {
        crate::testing::object(
            &format!("o{i}"),
            &format!("n{i}.example.com."),
            &[&["10.0.0.1"]],
        )
    });
    world.store(Event::Synced(objects.collect()));
    world.settle();
    let explanation = explain(&world, "10.0.0.1", None);
    assert_eq!(
        (explanation.names.len(), explanation.more_names),
        (1_000, 1_000)
    );
    assert!(explanation.text.len() < 500, "{}", explanation.text.len());
}

#[test]
fn the_sets_of_a_name_are_counted_and_a_difference_is_told() {
    let mut world = settled();
    let all = Sets::new(&query(""), sides(&world));
    assert_eq!((all.names, all.matching, all.hidden), (1, 1, 0));
    assert_eq!(
        counts(&all.sets),
        [("v4", 2, Some(2), 1), ("v6", 0, Some(0), 1)]
    );
    assert!(all.sets.iter().all(|set| set.trouble.is_none()));
    let rows = world.model.rows.values_mut();
    for row in rows.filter(|row| row.id("ip-family") == "v4") {
        row.addresses = ["10.0.0.2", "10.6.6.6", "rubbish"]
            .map(str::to_owned)
            .into();
    }
    world.tell();
    let sets = Sets::new(&query(""), sides(&world)).sets;
    assert_eq!(counts(&sets)[0], ("v4", 2, Some(3), 1));
    assert_eq!(sets[0].trouble.as_deref(), Some("1 missing, 2 too many"));
    world.work();
    let sets = Sets::new(&query(""), sides(&world)).sets;
    assert!(sets[0].trouble.is_none());
    // The row is deleted, and will be created again.
    world
        .model
        .rows
        .retain(|_, row| row.id("ip-family") != "v4");
    world.tell();
    let sets = Sets::new(&query(""), sides(&world)).sets;
    assert_eq!(counts(&sets)[0], ("v4", 2, None, 1));
    assert_eq!(sets[0].trouble.as_deref(), Some("the row is missing"));
}

#[test]
fn explain_filter_matches_names_and_rows_in_any_case_and_shows_few() {
    let mut world = World::new();
    let objects = (0..2_000).map(|i| {
        let name = format!("n{i}.example.com.");
        crate::testing::object(&format!("o{i}"), &name, &[&["10.0.0.1"]])
    });
    world.store(Event::Synced(objects.collect()));
    world.settle();
    let all = Sets::new(&query(""), sides(&world));
    assert_eq!((all.names, all.matching, all.hidden), (2_000, 2_000, 1_750));
    assert_eq!(all.sets.len(), 500);
    let some = Sets::new(&query("N77."), sides(&world));
    assert_eq!((some.names, some.matching, some.hidden), (2_000, 1, 0));
    assert!(some.sets.iter().all(|set| set.name == "n77.example.com."));
    let by_row = Sets::new(&query(&some.sets[0].set), sides(&world));
    assert_eq!(
        (by_row.matching, &by_row.sets[0].name),
        (1, &some.sets[0].name)
    );
    let none = Sets::new(&query("<script>"), sides(&world));
    assert_eq!((none.matching, none.sets.len()), (0, 0));
    let unconnected = Sides {
        replica: None,
        ..sides(&world)
    };
    let none = Sets::new(&query(""), unconnected);
    assert_eq!(
        (none.names, none.hidden, none.sets.len()),
        (2_000, 2_000, 0)
    );
}

#[test]
fn pages_of_sets_by_name_follow_each_other_until_the_end() {
    let mut world = World::new();
    let objects = (0..600).map(|i| {
        let name = format!("n{i:03}.example.com.");
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        crate::testing::object(&format!("o{i}"), &name, &[&addresses])
    });
    world.store(Event::Synced(objects.collect()));
    world.settle();
    let after = |after, filter: &str| SetsQuery {
        selection: Selection::After(after),
        ..query(filter)
    };
    let (mut listed, mut last, mut pages) = (Vec::new(), None, 0);
    loop {
        let sets = Sets::new(&after(last, ""), sides(&world));
        listed.extend(sets.sets.iter().map(|set| set.name.clone()));
        pages += 1;
        let v4 = sets.sets.iter().find(|set| set.family == "v4").unwrap();
        assert_eq!((v4.present, v4.addresses.len()), (Some(3), 2));
        last = sets.last;
        if last.is_none() {
            break;
        }
    }
    assert_eq!((listed.len(), pages), (1_200, 3));
    assert!(listed.is_sorted());
    let end = Sets::new(&after(None, "n599"), sides(&world));
    assert_eq!((end.sets.len(), end.last), (2, None));
}

#[test]
fn a_set_tells_the_namespaces_of_its_rules_and_a_snapshot_what_differs() {
    let mut world = settled();
    let acl = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    let acl = world.model.acls.get_mut(&acl).unwrap();
    for (key, value) in [("owner-type", "EgressFirewall"), ("name", "team")] {
        let key = format!("k8s.ovn.org/{key}");
        acl.external_ids.insert(key, value.to_owned());
    }
    world.tell();
    world.work();
    let remote = || "unix:/run/nb.sock".to_owned();
    let snapshot = |world: &World| Snapshot::new(sides(world), remote());
    let before = snapshot(&world);
    assert!(before.sets.is_empty() && before.database.is_connected);
    assert_eq!((before.names, before.objects, before.more_names), (1, 1, 0));
    for row in world.model.rows.values_mut() {
        row.addresses.clear();
    }
    world.tell();
    assert!(world.next().is_some());
    let after = snapshot(&world);
    assert_eq!(after.differences.missing_addresses, 2);
    let [set] = after.sets.as_slice() else {
        panic!("{:?}", after.sets);
    };
    assert_eq!(set.trouble.as_deref(), Some("2 missing, 0 too many"));
    assert!(set.is_being_written);
    assert_eq!((set.rules, &*set.namespaces), (2, &["team".to_owned()][..]));
    let dry_run = Sides {
        idle: Some(Idle::DryRun),
        ..sides(&world)
    };
    let snapshot = Snapshot::new(dry_run, remote());
    assert!(!snapshot.sets[0].is_being_written);
}

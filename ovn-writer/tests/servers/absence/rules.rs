//! The removal of the sets of absent names: because of their rules, or of time.

use proto::api::Family::{V4, V6};
use tests::{northbound::Row, ovnkube::set_name, transaction_log};

use super::fixture::{Fixture, address, closing_soon, name};

const NONE: [&str; 0] = [];

/// The sets of these names in the order in which they were emptied.
fn emptied(fixture: &Fixture, names: [&str; 2]) -> Vec<String> {
    let updates = transaction_log::read(fixture.database.workdir.path());
    let mut emptied: Vec<String> = Vec::new();
    for row in updates
        .iter()
        .flat_map(|update| update.rows.values().flatten())
    {
        let name = row.dns_name().unwrap_or_default();
        let is_empty = row.addresses.is_empty() && row.is_of(name, V4);
        let is_first = !emptied.iter().any(|other| other == name);
        if is_empty && is_first && names.contains(&name) {
            emptied.push(name.to_owned());
        }
    }
    emptied
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_object_and_rule_is_emptied_after_the_delay_then_deleted() {
    let (mut fixture, acls) = Fixture::start(2).await;
    // Without its object alone it stays.
    fixture.store.remove_object(&name(0));
    fixture.outlast(3).await;
    fixture.expect_all(2).await;
    // The whole delay counts from the removal of the rule. A rule that returns in time ends it.
    fixture.database.northbound.remove_acl(&acls[0]);
    let again = fixture.database.northbound.create_acls(&[name(0)], false);
    fixture.outlast(2).await;
    fixture.expect_all(2).await;
    let tick = fixture.clock.begin(&fixture.database).await;
    fixture.database.northbound.remove_acls(&again);
    fixture.expect_empty(&name(0)).await;
    assert_eq!(
        emptied(&fixture, [&tick, "n0.example."]),
        [&tick, "n0.example."]
    );
    fixture.expect_no_row(&name(0)).await;

    // The delay counts from the removal of the object, though the name has been unused for longer.
    fixture.database.northbound.remove_acl(&acls[1]);
    fixture.outlast(2).await;
    fixture.expect_rest(1..2).await;
    let tick = fixture.clock.begin(&fixture.database).await;
    fixture.store.remove_object(&name(1));
    fixture.expect_no_row(&name(1)).await;
    assert_eq!(
        emptied(&fixture, [&tick, "n1.example."]),
        [&tick, "n1.example."]
    );
    assert_eq!(fixture.closings(), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_whose_rule_and_object_return_in_time_keeps_its_addresses() {
    let (mut fixture, acls) = Fixture::start(2).await;
    fixture.database.northbound.remove_acl(&acls[0]);
    for status in [None, Some("")] {
        fixture.store.remove_object(&name(0));
        match status {
            None => fixture.store.write_status(&name(0), &[&address(0)]),
            // As when ovn-kubernetes creates it again.
            Some(status) => fixture.store.write_object(&name(0), status),
        }
        fixture.outlast(2).await;
        fixture.expect_all(2).await;
    }
    assert_eq!(emptied(&fixture, ["n0.example.", "n1.example."]), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn few_names_in_use_that_stay_away_are_closed_and_many_are_not() {
    // Of 24 names ten may be removed by time, and of 12 six.
    for (count, few) in [(24, 10), (12, 6)] {
        let (mut fixture, _) = Fixture::start_with(count, closing_soon()).await;
        for n in 0..=few {
            fixture.store.remove_object(&name(n));
        }
        fixture.writer.suspects().await;
        fixture.outlast(6).await;
        assert_eq!(fixture.closings(), NONE, "{few} + 1 of {count}");
        // One of them returns.
        fixture.store.write_status(&name(few), &[&address(few)]);
        for n in 0..few {
            fixture.expect_empty(&name(n)).await;
        }
        fixture.writer.ready().await;
        assert_eq!(fixture.closings().len(), few);
        // They count for an hour: the next one is one too many.
        fixture.store.remove_object(&name(few));
        fixture.writer.suspects().await;
        fixture.outlast(6).await;
        assert_eq!(fixture.closings().len(), few);
        fixture.expect_rest(few..count).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_no_object_ever_had_here_are_neither_counted_nor_emptied() {
    let (mut fixture, _) = Fixture::start_with(4, closing_soon()).await;
    let stranger = "stranger.example.";
    let set = set_name(stranger, V4);
    let northbound = &fixture.database.northbound;
    northbound.create_set(&set, stranger, V4, "10.9.9.9");
    northbound.create_acls(&[stranger.to_owned()], false);
    fixture.store.remove_object(&name(0));
    fixture.expect_empty(&name(0)).await;
    fixture.outlast(3).await;
    fixture.database.expect(stranger, V4, &["10.9.9.9"]).await;
    assert_eq!(fixture.closings(), ["n0.example. 10.0.0.0"]);
    fixture.writer.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sets_of_a_name_go_one_by_one() {
    let (fixture, acls) = Fixture::start(1).await;
    let v6 = "2001:db8::1";
    fixture.store.write_status(&name(0), &[&address(0), v6]);
    fixture.database.expect(&name(0), V6, &[v6]).await;
    // A rule uses one of its two sets.
    let northbound = &fixture.database.northbound;
    northbound.turn_acl(&acls[0], &[&fixture.database.row(&name(0), V4).name]);
    fixture.store.remove_object(&name(0));
    let is_gone = |rows: &[Row]| rows.is_empty();
    let what = "the unused set is deleted";
    fixture
        .database
        .expect_rows(what, &name(0), V6, is_gone)
        .await;
    fixture.expect_all(1).await;
    assert_eq!(fixture.closings(), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_to_which_a_nat_or_a_qos_rule_or_a_policy_refers_is_in_use() {
    let (mut fixture, acls) = Fixture::start(3).await;
    let nbctl = |args: &[&str]| fixture.database.northbound.nbctl(args).unwrap();
    let rows = [0, 1, 2].map(|n| fixture.database.row(&name(n), V4));
    let matches = [1, 2].map(|n: usize| format!("ip4.dst == ${}", rows[n].name));
    nbctl(&["lr-add", "r"]);
    nbctl(&["lr-nat-add", "r", "snat", "192.0.2.1", "10.0.0.0/8"]);
    let nat = nbctl(&["--bare", "--columns=_uuid", "list", "NAT"]);
    let ips = format!("allowed_ext_ips={}", rows[0].uuid);
    nbctl(&["set", "NAT", &nat, &ips]);
    nbctl(&["qos-add", "switch", "to-lport", "10", &matches[0], "dscp=1"]);
    nbctl(&["lr-policy-add", "r", "10", &matches[1], "allow"]);
    fixture.database.northbound.remove_acls(&acls);
    for n in 0..3 {
        fixture.store.remove_object(&name(n));
    }
    fixture.outlast(3).await;
    fixture.expect_all(3).await;
    let nbctl = |args: &[&str]| fixture.database.northbound.nbctl(args).unwrap();
    nbctl(&["clear", "NAT", &nat, "allowed_ext_ips"]);
    nbctl(&["qos-del", "switch"]);
    nbctl(&["lr-policy-del", "r"]);
    for n in 0..3 {
        fixture.expect_no_row(&name(n)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_with_its_rules_while_no_writer_ran_goes_if_it_bears_the_mark() {
    let (mut fixture, acls) = Fixture::start(3).await;
    fixture.stop_writer().await;
    let mark = |n: usize, args: &[&str]| {
        let uuid = fixture.database.row(&name(n), V4).uuid;
        let set = [&[args[0], "Address_Set", &uuid], &args[1..]].concat();
        fixture.database.northbound.nbctl(&set).unwrap();
    };
    mark(
        1,
        &["set", "external_ids:ovn-writer/created=\"kube/other\""],
    );
    mark(2, &["remove", "external_ids", "ovn-writer/created"]);
    for n in 0..3 {
        fixture.store.remove_object(&name(n));
    }
    fixture.database.northbound.remove_acls(&acls);
    fixture.start_writer();
    fixture.expect_no_row(&name(0)).await;
    fixture.outlast(2).await;
    fixture.expect_rest(1..3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_row_under_the_name_as_written_goes_what_the_writer_put_in() {
    let (fixture, acls) = Fixture::start(1).await;
    let written = "N0.example";
    let set = set_name(written, V4);
    fixture
        .database
        .northbound
        .create_set(&set, written, V4, "10.7.7.7");
    let both = [&*address(0), "10.7.7.7"];
    fixture.database.expect(written, V4, &both).await;
    fixture.database.northbound.remove_acl(&acls[0]);
    fixture.store.remove_object(&name(0));
    fixture.database.expect(written, V4, &both[1..]).await;
    fixture.expect_no_row(&name(0)).await;
    fixture.database.expect(written, V4, &both[1..]).await;
}

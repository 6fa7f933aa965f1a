//! The collector's status that a rule ended.

use super::fixture::{Fixture, address, name};
use crate::harness::{AWAY, absent_after, managed, policy, quick};

const NO_RULE: &str = "NoRule";

const NONE: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn many_names_whose_rules_ended_are_closed_though_referenced() {
    let (mut fixture, _) = Fixture::start(20).await;
    for n in 0..20 {
        fixture.store.write_no_address(&name(n), NO_RULE);
    }
    // This is not a status without addresses: the object is deleted next, and until then nothing changes.
    fixture.outlast(2).await;
    assert_eq!(fixture.closings(), NONE);
    for n in 0..20 {
        fixture.store.remove_object(&name(n));
    }
    for n in 0..20 {
        fixture.expect_empty(&name(n)).await;
    }
    fixture.writer.ready().await;
    assert_eq!(fixture.closings().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_whose_rule_returns_before_the_delay_is_over_keeps_its_addresses() {
    for status in [None, Some("")] {
        let (mut fixture, _) = Fixture::start(2).await;
        fixture.store.write_no_address(&name(0), NO_RULE);
        fixture.fence().await;
        fixture.store.remove_object(&name(0));
        fixture.fence().await;
        match status {
            None => fixture.store.write_status(&name(0), &[&address(0)]),
            Some(status) => fixture.store.write_object(&name(0), status),
        }
        fixture.outlast(2).await;
        fixture.expect_all(2).await;
        // The status only counted for that deletion.
        fixture.store.remove_object(&name(0));
        fixture.outlast(2).await;
        assert_eq!(fixture.closings(), NONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_managed_database_the_rules_are_waited_for_but_not_for_ever() {
    let policy = managed(absent_after(quick(policy()), AWAY * 8));
    let (mut fixture, acls) = Fixture::start_with(2, policy).await;
    for n in 0..2 {
        fixture.store.write_no_address(&name(n), NO_RULE);
        fixture.fence().await;
        fixture.store.remove_object(&name(n));
    }
    fixture.outlast(3).await;
    fixture.expect_all(2).await;
    fixture.database.northbound.remove_acl(&acls[0]);
    fixture.expect_no_row(&name(0)).await;
    let mut closings = fixture.closings();
    closings.retain(|closing| !closing.starts_with("fence."));
    assert_eq!(closings, NONE);
    // The rule of the other one stays for longer than the writer waits.
    fixture.expect_empty(&name(1)).await;
}

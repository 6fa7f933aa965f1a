//! Several installations on one database, and one whose store was renamed.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use ovn_writer::{Verified, address_set::NORTHBOUND, sync::Policy, verify};
use ovsdb_replica::{ClientOptions, Remotes};
use proto::api::Family::V4;
use runtime::store::Event;

use super::fixture::{Fixture, address, closing_soon, name};
use crate::harness::{RunningWriter, STORE, deleted, former_store, named_store, object};

const NONE: [&str; 0] = [];

const OTHER: &str = "dir:/srv/other/ovn-kubernetes";

#[tokio::test(flavor = "multi_thread")]
async fn two_installations_with_different_names_empty_each_others_sets_never() {
    let (mut fixture, _) = Fixture::start_with(4, closing_soon()).await;
    let remote = fixture.database.northbound.remote();
    let policy = || named_store(closing_soon(), OTHER);
    let theirs = [
        object("m0.example.", &["10.9.0.0"]),
        object("m1.example.", &["10.9.0.1"]),
    ];
    for list in [&theirs[..], &theirs[..1], &[]] {
        let other = RunningWriter::start_with(&remote, policy(), |writer| writer);
        other.store(Event::Synced(list.to_vec())).await;
        if list.len() == 2 {
            for n in 0..2 {
                let name = format!("m{n}.example.");
                fixture
                    .database
                    .expect(&name, V4, &[&format!("10.9.0.{n}")])
                    .await;
                // No rule refers to the rows of the other one: an installation that took them over would delete them.
                assert!(
                    fixture
                        .database
                        .row(&name, V4)
                        .external_ids
                        .values()
                        .any(|it| it == OTHER)
                );
            }
        }
        // Both restart beside the rows of the other.
        fixture.stop_writer().await;
        fixture.start_writer();
        fixture.outlast(2).await;
        if list.len() == 2 {
            fixture
                .database
                .expect("m1.example.", V4, &["10.9.0.1"])
                .await;
        }
        other.stop().await;
    }
    fixture.expect_all(4).await;
    assert_eq!(fixture.closings(), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_only_the_other_installation_has_stays_as_that_made_it() {
    let (mut fixture, acls) = Fixture::start(4).await;
    let remote = fixture.database.northbound.remote();
    let policy = named_store(closing_soon(), OTHER);
    let other = RunningWriter::start_with(&remote, policy, |writer| writer);
    let all = (0..4).map(|n| object(&name(n), &[&address(n)]));
    other.store(Event::Synced(all.collect())).await;
    other.ready().await;
    // The rules of these names ended in the first one; the other one still has them.
    for n in 0..4 {
        other.store(deleted(&name(n))).await;
    }
    fixture.database.northbound.remove_acls(&acls[..2]);
    fixture.outlast(6).await;
    fixture.expect_all(4).await;
    other.stop().await;
    assert_eq!(fixture.closings(), NONE);
}

/// The result of `verify` for the names that its store does not have.
async fn verified(fixture: &Fixture, policy: Policy) -> Verified {
    let remotes: Remotes = fixture.database.northbound.remote().parse().unwrap();
    let objects = fixture.store.objects().into_iter().map(|mut it| {
        it.metadata.namespace = Some("renamed".to_owned());
        it
    });
    let events = stream::iter([Event::Synced(objects.collect())]).chain(stream::pending());
    let (options, deadline) = (ClientOptions::new(NORTHBOUND), Duration::from_secs(30));
    verify(&remotes, options, policy, events, deadline)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_renamed_store_are_kept_and_named_unless_a_flag_names_it() {
    let (mut fixture, acls) = Fixture::start(12).await;
    fixture.stop_writer().await;
    let renamed = || named_store(closing_soon(), "kube/renamed");
    // During the renaming some names are removed: 0 with its rule, 1 without it.
    for n in 0..2 {
        fixture.store.remove_object(&name(n));
    }
    fixture.database.northbound.remove_acl(&acls[0]);
    fixture.policy = renamed();
    fixture.start_writer();
    fixture.outlast(6).await;
    fixture.expect_all(12).await;
    fixture.writer.ready().await;
    let found = verified(&fixture, renamed()).await;
    let text = found.to_string();
    assert!(text.contains(&format!("--former-store {STORE}")), "{text}");

    // With the flag the rules for absence apply to them.
    fixture.stop_writer().await;
    fixture.policy = former_store(renamed(), STORE);
    fixture.start_writer();
    fixture.expect_no_row(&name(0)).await;
    fixture.expect_empty(&name(1)).await;
    fixture.expect_rest(2..12).await;
    assert_eq!(fixture.closings(), ["n1.example. 10.0.0.1"]);
    // Many of them stay.
    fixture.stop_writer().await;
    for n in 2..12 {
        fixture.store.remove_object(&name(n));
    }
    fixture.start_writer();
    fixture.writer.suspects().await;
    fixture.outlast(6).await;
    fixture.expect_rest(2..12).await;
    assert_eq!(fixture.closings().len(), 1);
}

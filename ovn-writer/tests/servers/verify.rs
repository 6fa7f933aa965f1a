//! `ovn-writer verify`: store and database compared once.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use ovn_writer::{
    Counts, Verified, VerifyError,
    address_set::NORTHBOUND,
    ovsdb::{ClientOptions, Remotes},
    report::{Action, Kind},
    verify,
};
use proto::api::{DnsNameResolver, Family::V4};
use runtime::store::Event;

use crate::harness::{Database, RunningWriter, object, policy};

const W: &str = "www.example.com.";

async fn verified(
    remote: &str,
    events: Vec<Event<DnsNameResolver>>,
) -> Result<Verified, VerifyError> {
    let remotes: Remotes = remote.parse().unwrap();
    let options = ClientOptions::new(NORTHBOUND);
    let objects = stream::iter(events).chain(stream::pending());
    let deadline = if remote.contains("nowhere") || remote.contains("tcp:") {
        Duration::from_millis(500)
    } else {
        Duration::from_secs(30)
    };
    verify(&remotes, options, policy(), objects, deadline).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_writer_wrote_is_the_same() {
    let database = Database::start().await;
    let store = || {
        vec![
            object(W, &["10.0.0.1", "2001:db8::1"]),
            object("b.example.", &[]),
        ]
    };
    let remote = database.northbound.remote();
    let writer = RunningWriter::start(&remote);
    writer.store(Event::Synced(store())).await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    writer.ready().await;
    let found = verified(&remote, vec![Event::Synced(store())])
        .await
        .unwrap();
    assert!(found.is_same(), "{found}");
    assert_eq!((found.objects, found.rows, found.managed), (2, 4, false));
    let line = "2 objects, 4 rows: 0 missing rows, 0 missing addresses, 0 surplus addresses, 0 unwanted rows";
    assert_eq!(found.to_string(), line);
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_difference_is_found_with_the_rules_that_it_concerns() {
    let database = Database::start().await;
    database
        .northbound
        .create_set("a4029995183407368296", W, V4, "10.0.0.1,10.0.0.9");
    database
        .northbound
        .create_set("a2", "gone.example.", V4, "10.0.0.2");
    database
        .northbound
        .create_set("a3", "WRITTEN.example", V4, "10.0.0.3");
    database
        .northbound
        .create_acl("allow", 10000, &["a4029995183407368296"], true);
    database
        .northbound
        .create_acl("drop", 9999, &["a4029995183407368296"], true);
    // Nothing refers to the rows of these names, and ovn-kubernetes manages the database, as its rules show.
    let store = vec![
        object(W, &["10.0.0.1", "10.0.0.2"]),
        object("written.example.", &[]),
    ];
    let found = verified(
        &database.northbound.remote(),
        vec![Event::Synced(store.clone())],
    )
    .await
    .unwrap();
    assert!(!found.is_same() && found.managed);
    let counts = Counts {
        missing_row: 0,
        missing_address: 1,
        surplus_address: 1,
        unwanted_row: 1,
    };
    assert_eq!((found.differences, found.foreign_addresses), (counts, 1));
    let text = found.to_string();
    let expected = "gone.example.\n  \
        a2 v4 of default-network-controller is of no name in the store: -10.0.0.2 (left: the store never had the name)\n\
        www.example.com.\n  \
        a4029995183407368296 v4 of default-network-controller: +10.0.0.2 -10.0.0.9\n    \
        ACL allow to-lport 10000 of team: opens 10.0.0.2; closes 10.0.0.9\n    \
        ACL drop to-lport 9999 of team: opens 10.0.0.9; closes 10.0.0.2\n\
        2 objects, 3 rows: 0 missing rows, 1 missing addresses, 1 surplus addresses, 1 unwanted rows";
    assert_eq!(text, expected);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["differences"]["surplus_address"], 1);
    assert_eq!(
        json["names"][1]["sets"][0]["rules"][0]["opens"],
        serde_json::json!(["10.0.0.2"])
    );
    assert_eq!(
        json["names"][1]["sets"][0]["rules"][1]["closes"],
        serde_json::json!(["10.0.0.2"])
    );

    // A forgotten set, at once: verify does not wait.
    database
        .northbound
        .nbctl(&["destroy", "Address_Set", "a4029995183407368296"])
        .unwrap();
    let found = verified(&database.northbound.remote(), vec![Event::Synced(store)])
        .await
        .unwrap();
    let set = &found.names[1].sets[0];
    assert_eq!(
        (set.kind, &*set.missing),
        (
            Kind::MissingRow,
            &["10.0.0.1".to_owned(), "10.0.0.2".to_owned()][..]
        )
    );
    assert!(matches!(set.action, Action::AfterMillis(1..=2000)), "{set}");
    assert_eq!(set.rules.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_store_is_doubted() {
    let database = Database::start().await;
    database.northbound.create_set("a2", W, V4, "10.0.0.2");
    let mark = "external_ids:ovn-writer/created=\"kube/ovn-kubernetes\"";
    database
        .northbound
        .nbctl(&["set", "Address_Set", "a2", mark])
        .unwrap();
    let found = verified(&database.northbound.remote(), vec![Event::Synced(vec![])])
        .await
        .unwrap();
    assert_eq!(found.differences.unwanted_row, 1);
    assert!(found.doubt.unwrap().contains("--allow-empty"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_in_time_is_said() {
    let database = Database::start().await;
    let remote = database.northbound.remote();
    let error = verified("unix:/nowhere/nb.sock", vec![Event::Synced(vec![])])
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "the northbound database was not read within 500ms: unix:/nowhere/nb.sock: "
        ),
        "{text}"
    );
    let out_of_sync = vec![Event::OutOfSync("no folder".into())];
    let error = verified("unix:/nowhere/nb.sock", out_of_sync)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store was not read within 500ms: no folder"
    );
    let remotes = remote.parse().unwrap();
    let ended = verify(
        &remotes,
        ClientOptions::new(NORTHBOUND),
        policy(),
        stream::empty(),
        Duration::from_secs(30),
    );
    assert!(matches!(ended.await, Err(VerifyError::StoreEnded)));
}

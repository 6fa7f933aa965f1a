//! `egress verify`: store and database compared once.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use ovn_writer::{
    Differences, Verified, VerifyError,
    address_set::NORTHBOUND,
    report::{Action, Kind},
    verify,
};
use ovsdb_replica::{ClientOptions, Remotes};
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
    let line = "2 objects, 4 rows: 0 missing rows, 0 name clashes, 0 missing addresses, 0 surplus addresses, 0 unwanted rows";
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
    // No rule refers to the rows of these names, and ovn-kubernetes manages the database, as its rules show.
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
    let differences = Differences {
        missing_addresses: 1,
        surplus_addresses: 1,
        ..Differences::default()
    };
    assert_eq!(found.differences, differences);
    let text = found.to_string();
    let expected = "www.example.com.\n  \
        a4029995183407368296 v4 of default-network-controller: +10.0.0.2 -10.0.0.9 (repaired if it lasts for 500 ms)\n    \
        ACL allow to-lport 10000 of team, egress[0]\n    \
        ACL drop to-lport 9999 of team, egress[1]\n\
        2 objects, 3 rows: 0 missing rows, 0 name clashes, 1 missing addresses, 1 surplus addresses, 0 unwanted rows";
    assert_eq!(text, expected);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["differences"]["surplus_address"], 1);
    assert_eq!(json["names"][0]["sets"][0]["action"], "soon");

    // A set that a rule refers to and that does not exist.
    database
        .northbound
        .nbctl(&["destroy", "Address_Set", "a4029995183407368296"])
        .unwrap();
    let found = verified(&database.northbound.remote(), vec![Event::Synced(store)])
        .await
        .unwrap();
    let set = &found.names[0].sets[0];
    assert_eq!(
        (set.kind, &*set.missing),
        (
            Kind::MissingRow,
            &["10.0.0.1".into(), "10.0.0.2".into()][..]
        )
    );
    assert_eq!(set.action, Action::Now, "{set}");
    assert_eq!(set.rules.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_whose_name_somebody_else_has_is_no_missing_one() {
    let database = Database::start().await;
    let column = "name=a4029995183407368296";
    let args = ["create", "Address_Set", column, "addresses=10.9.9.9"];
    database.northbound.nbctl(&args).unwrap();
    let store = vec![object(W, &["10.0.0.1", "2001:db8::1"])];
    let found = verified(&database.northbound.remote(), vec![Event::Synced(store)])
        .await
        .unwrap();
    let differences = Differences {
        missing_rows: 1,
        name_clashes: 1,
        missing_addresses: 1,
        ..Differences::default()
    };
    assert_eq!(found.differences, differences);
    let expected = "www.example.com.\n  \
        a4029995183407368296 v4 of default-network-controller is missing: +10.0.0.1 (left: another client has a set of its name)\n  \
        a4029997382430624718 v6 of default-network-controller is missing: +2001:db8::1\n\
        1 objects, 0 rows: 1 missing rows, 1 name clashes, 1 missing addresses, 0 surplus addresses, 0 unwanted rows";
    assert_eq!(found.to_string(), expected);
    let json = serde_json::to_value(&found).unwrap();
    let set = &json["names"][0]["sets"][0];
    assert_eq!(set["kind"], "name_clash");
    assert_eq!(set["action"], "left");
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_used_names_without_object_and_rows_of_another_store() {
    let database = Database::start().await;
    database.northbound.create_set("a2", W, V4, "10.0.0.2");
    let mark = "external_ids:ovn-writer/created=\"kube/ovn-kubernetes\"";
    database
        .northbound
        .nbctl(&["set", "Address_Set", "a2", mark])
        .unwrap();
    let rule = "ip4.dst == $a2";
    for command in [
        &["pg-add", "pg"][..],
        &["acl-add", "pg", "to-lport", "1000", rule, "allow"],
    ] {
        database.northbound.nbctl(command).unwrap();
    }
    let found = || async {
        let remote = database.northbound.remote();
        verified(&remote, vec![Event::Synced(vec![])])
            .await
            .unwrap()
    };
    let of_ours = found().await;
    assert!(of_ours.is_same() && of_ours.other_stores.is_empty());
    assert_eq!(of_ours.absent.clone().unwrap().names, [W]);
    let text = of_ours.to_string();
    assert!(
        text.contains("1 names in use have no DNSNameResolver object"),
        "{text}"
    );
    let mark = "external_ids:ovn-writer/created=\"kube/other\"";
    database
        .northbound
        .nbctl(&["set", "Address_Set", "a2", mark])
        .unwrap();
    let of_others = found().await;
    assert!(of_others.absent.is_none() && of_others.is_same());
    assert_eq!(
        of_others.other_stores,
        [("kube/other".to_owned(), 1)].into()
    );
    assert!(of_others.to_string().contains("another store, kube/other"));
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

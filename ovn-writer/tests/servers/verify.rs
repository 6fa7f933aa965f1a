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
        unwanted_rows: 1,
        foreign_addresses: 1,
        ..Differences::default()
    };
    assert_eq!(found.differences, differences);
    let text = found.to_string();
    let expected = "gone.example.\n  \
        a2 v4 of default-network-controller is of no name in the store: -10.0.0.2 (left: the store never had the name)\n\
        www.example.com.\n  \
        a4029995183407368296 v4 of default-network-controller: +10.0.0.2 -10.0.0.9 (in 500 ms)\n    \
        ACL allow to-lport 10000 of team: opens 10.0.0.2; closes 10.0.0.9\n    \
        ACL drop to-lport 9999 of team: opens 10.0.0.9; closes 10.0.0.2\n\
        2 objects, 3 rows: 0 missing rows, 0 name clashes, 1 missing addresses, 1 surplus addresses, 1 unwanted rows";
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

    // A set that a rule refers to and that does not exist.
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
        a4029995183407368296 v4 of default-network-controller is missing, and another client has a set of its name: +10.0.0.1\n  \
        a4029997382430624718 v6 of default-network-controller is missing: +2001:db8::1\n\
        1 objects, 0 rows: 1 missing rows, 1 name clashes, 1 missing addresses, 0 surplus addresses, 0 unwanted rows";
    assert_eq!(found.to_string(), expected);
    let json = serde_json::to_value(&found).unwrap();
    let set = &json["names"][0]["sets"][0];
    assert_eq!(set["kind"], "name_clash");
    assert_eq!(
        set["action"],
        serde_json::json!({"left": "another client has a set of its name"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nat_that_refer_to_a_set_are_named() {
    let database = Database::start().await;
    database
        .northbound
        .create_set("a4029995183407368296", W, V4, "10.0.0.1");
    let nbctl = |args: &[&str]| database.northbound.nbctl(args).unwrap();
    let row = database.row(W, V4);
    nbctl(&["lr-add", "r"]);
    for (kind, logical) in [("snat", "10.0.0.0/8"), ("dnat_and_snat", "10.1.0.1")] {
        nbctl(&["lr-nat-add", "r", kind, "192.0.2.1", logical]);
    }
    let nat = |kind: &str| {
        let args = [
            "--bare",
            "--columns=_uuid",
            "find",
            "NAT",
            &format!("type={kind}"),
        ];
        nbctl(&args)
    };
    let (allowed, exempted) = (nat("snat"), nat("dnat_and_snat"));
    let [allowed, exempted] = [allowed.trim(), exempted.trim()];
    nbctl(&[
        "set",
        "NAT",
        allowed,
        &format!("allowed_ext_ips={}", row.uuid),
    ]);
    nbctl(&[
        "set",
        "NAT",
        exempted,
        &format!("exempted_ext_ips={}", row.uuid),
    ]);
    database
        .northbound
        .create_acl("allow", 10000, &["a4029995183407368296"], true);
    let store = vec![object(W, &["10.0.0.2"])];
    let found = verified(&database.northbound.remote(), vec![Event::Synced(store)])
        .await
        .unwrap();
    let text = found.names[0].sets[0].to_string();
    let mut lines: Vec<_> = text.lines().skip(1).map(str::trim).collect();
    lines.sort_unstable();
    let mut expected = vec![
        "ACL allow to-lport 10000 of team: opens 10.0.0.2; closes 10.0.0.1".to_owned(),
        format!("NAT allowed_ext_ips of {allowed}: changes 10.0.0.2 10.0.0.1"),
        format!("NAT exempted_ext_ips of {exempted}: changes 10.0.0.2 10.0.0.1"),
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let json = serde_json::to_value(&found).unwrap();
    let rules = json["names"][0]["sets"][0]["rules"].as_array().unwrap();
    let from_nat = |uuid| rules.iter().find(|rule| rule["row"] == uuid).unwrap();
    let expected = serde_json::json!({
        "table": "NAT", "row": allowed, "column": "allowed_ext_ips", "opens": [], "closes": [],
        "changes": ["10.0.0.2", "10.0.0.1"],
    });
    assert_eq!(from_nat(allowed), &expected);
    assert_eq!(from_nat(exempted)["column"], "exempted_ext_ips");
    let acl = rules.iter().find(|rule| rule["table"] == "ACL").unwrap();
    assert_eq!(
        (&acl["priority"], &acl["row"]),
        (&10000.into(), &serde_json::Value::Null)
    );
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
    assert_eq!(of_ours.differences.unwanted_rows, 1);
    let absent = of_ours.absent.clone().unwrap();
    assert_eq!((absent.names, absent.in_use), (vec![W.to_owned()], 1));
    assert!(absent.is_exceeded && of_ours.other_stores.is_empty());
    let text = of_ours.to_string();
    assert!(
        text.contains("the store is suspect: 1 of 1 names in use"),
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
    assert!(of_others.to_string().contains("--former-store kube/other"));
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

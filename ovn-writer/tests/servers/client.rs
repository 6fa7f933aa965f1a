//! The OVSDB client alone.

use std::time::Duration;

use ovn_writer::address_set::NORTHBOUND;
use ovsdb_replica::{
    Client, ClientOptions, Condition, Error, Event, Operation, Outcome, Row, Until,
    transport::TransportError,
};
use rustix::process::Signal;
use tests::workdir::Workdir;
use tokio::time::timeout;

use crate::{
    follow::{add, addresses, client, client_with, down, event, insert, make_row, transact, up},
    harness::Database,
    server::{Server, create},
};

#[tokio::test]
async fn refused_transaction_names_operation_and_changes_nothing() {
    let database = Database::start().await;
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    make_row(&mut client, "a1").await;
    let nonsense = Operation::Delete {
        table: "Address_Set".into(),
        filter: vec![Condition::has_pair("no_such_column", "a", "b")],
    };
    for (operations, failed, words) in [
        (
            vec![insert("a2"), insert("a1")],
            None,
            "constraint violation",
        ),
        (vec![insert("a3"), nonsense], Some(1), "no_such_column"),
    ] {
        match transact(&mut client, operations).await {
            Outcome::Refused(refusal) => {
                assert_eq!(refusal.operation, failed);
                assert!(refusal.to_string().contains(words), "{refusal}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.replica().unwrap().len(), 1);
}

#[tokio::test]
async fn rows_beside_conditions_do_not_come() {
    let database = Database::start().await;
    let other = [
        "create",
        "Address_Set",
        "name=other",
        "external_ids:k8s.ovn.org/owner-type=X",
    ];
    let uuid = database.northbound.nbctl(&other).unwrap();
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    assert!(client.replica().unwrap().is_empty());
    // It becomes a monitored row, and ceases to be one.
    for (id, count) in [("EgressFirewallDNS", 1), ("X", 0)] {
        let id = format!("external_ids:k8s.ovn.org/owner-type={id}");
        let ids = [
            "external_ids:k8s.ovn.org/name=a.b.",
            "external_ids:ip-family=v4",
        ];
        database
            .northbound
            .nbctl(&["set", "Address_Set", &uuid, &id, ids[0], ids[1]])
            .unwrap();
        assert!(matches!(event(&mut client).await, Event::Changed(names) if names.len() == 1));
        assert_eq!(client.replica().unwrap().len(), count);
    }
}

#[tokio::test]
async fn server_that_hangs_is_left_and_found_again() {
    let mut database = Database::start().await;
    let remotes = [
        (database.listen("127.0.0.1").await, 400),
        // A local server gets six times as long.
        (database.northbound.remote(), 2400),
    ];
    for (remote, silence) in remotes {
        let mut options = ClientOptions::new(NORTHBOUND);
        options.session.transport.inactivity_probe = Duration::from_millis(200);
        let mut client = client_with(&remote, options);
        up(&mut client).await;
        // Silent, but alive: the session continues.
        let quiet = timeout(Duration::from_secs(3), client.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
        database.northbound.process().signal(Signal::STOP);
        let error = down(&mut client).await;
        let inactive = TransportError::Inactive(Duration::from_millis(silence)).to_string();
        assert!(error.to_string().contains(&inactive), "{error}");
        database.northbound.process().signal(Signal::CONT);
        up(&mut client).await;
    }
}

#[tokio::test]
async fn transaction_without_answer_is_unknown() {
    let mut database = Database::start().await;
    let mut options = ClientOptions::new(NORTHBOUND);
    options.transact_deadline = Duration::from_millis(200);
    let mut client = Client::new(&database.northbound.remote().parse().unwrap(), options);
    up(&mut client).await;
    database.northbound.process().signal(Signal::STOP);
    let outcome = transact(&mut client, vec![insert("a1")]).await;
    assert!(
        matches!(outcome, Outcome::Unknown(Error::Deadline { .. })),
        "{outcome:?}"
    );
    client.restart();
    assert!(client.replica().is_none() && client.transact(vec![insert("a1")]).is_none());
    database.northbound.process().signal(Signal::CONT);
    up(&mut client).await;
    // The transaction was on its way, and took effect.
    assert_eq!(client.replica().unwrap().len(), 1);
}

#[tokio::test]
async fn transaction_of_server_that_dies_is_unknown() {
    let mut database = Database::start().await;
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    database.northbound.process().signal(Signal::STOP);
    let sent = client.transact(vec![insert("a1")]).unwrap();
    database.northbound.process().kill();
    match event(&mut client).await {
        Event::Down { error, unknown, .. } => {
            assert!(matches!(error, Error::Lost(_)), "{error}");
            assert_eq!(unknown, [sent]);
        }
        other => panic!("{other:?}"),
    }
}

/// Starts a server of a database with another schema, and returns the client's error.
async fn complaint(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let workdir = Workdir::new();
    create(workdir.path(), "nb", change);
    let server = Server::start(workdir.path(), "nb", &[]).await;
    let mut client = client(&server.remote());
    down(&mut client).await.to_string()
}

#[tokio::test]
async fn schema_that_does_not_fit_is_one_clear_line() {
    let missing = complaint(|schema| {
        schema["version"] = "7.0.0".into();
        schema["tables"]["Address_Set"]["columns"]
            .as_object_mut()
            .unwrap()
            .remove("external_ids");
    })
    .await;
    assert_eq!(
        missing,
        "the schema of OVN_Northbound 7.0.0 has no column Address_Set.external_ids"
    );
    let other = complaint(|schema| schema["name"] = "OVN_Southbound".into()).await;
    assert!(
        other.contains("get_schema") && other.contains("unknown database"),
        "{other}"
    );
}

#[tokio::test]
async fn wait_refuses_transaction_after_other_change() {
    let database = Database::start().await;
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    let row = make_row(&mut client, "a1").await;
    let guard = |name: &str| Operation::Wait {
        table: "Address_Set".into(),
        filter: vec![Condition::uuid(row)],
        columns: vec!["name".into()],
        until: Until::Equal,
        rows: vec![Row::from([("name".into(), name.into())])],
        timeout: 0,
    };
    let done = transact(&mut client, vec![guard("a1"), add(row, "10.0.0.1")]).await;
    assert!(matches!(done, Outcome::Done(_)), "{done:?}");
    match transact(&mut client, vec![guard("b1"), add(row, "10.0.0.2")]).await {
        Outcome::Refused(refusal) => {
            assert_eq!(refusal.operation, Some(0));
            assert_eq!(refusal.reason.error, "timed out", "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(addresses(&client).unwrap(), ["10.0.0.1"]);
}

//! The OVSDB client alone.

use std::time::Duration;

use ovn_writer::address_set::{AddressSet, NORTHBOUND};
use ovsdb_replica::{
    Client, ClientOptions, Condition, Error, Event, Operation, Outcome, Row, Until,
    transport::TransportError,
};
use runtime::store::Event as StoreEvent;
use rustix::process::Signal;
use tests::workdir::Workdir;
use tokio::time::timeout;

use crate::{
    follow::{Follower, add, addresses, client, down, event, insert, make_row, transact, up},
    harness::{Database, RunningWriter, policy},
    server::{Server, create},
};

#[tokio::test]
async fn a_transaction_result_comes_after_the_replica_has_its_rows() {
    let database = Database::start().await;
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    let uuid = make_row(&mut client, "a1").await;
    for n in 0..300 {
        let address = format!("10.0.{}.{}", n / 250, n % 250);
        match transact(&mut client, vec![add(uuid, &address)]).await {
            Outcome::Done(results) => assert_eq!(results[0].count, Some(1)),
            other => panic!("{other:?}"),
        }
        let row = client.replica().unwrap().get(uuid).unwrap();
        assert!(row.holds(&address.parse().unwrap()), "{n}");
        assert_eq!(row.addresses().len(), n + 1);
    }
    match transact(&mut client, vec![insert("a2"), insert("a1")]).await {
        Outcome::Refused(refusal) => {
            assert_eq!(refusal.operation, None);
            assert!(
                refusal.to_string().contains("constraint violation"),
                "{refusal}"
            );
        }
        other => panic!("{other:?}"),
    }
    let nonsense = Operation::Delete {
        table: "Address_Set".into(),
        filter: vec![Condition::has_pair("no_such_column", "a", "b")],
    };
    match transact(&mut client, vec![insert("a3"), nonsense]).await {
        Outcome::Refused(refusal) => assert_eq!(refusal.operation, Some(1), "{refusal}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.replica().unwrap().len(), 1);
}

#[tokio::test]
async fn rows_that_are_not_asked_for_do_not_come() {
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
async fn a_server_that_hangs_is_left_and_found_again() {
    let mut database = Database::start().await;
    let remote = database.listen("127.0.0.1").await;
    let mut options = ClientOptions::new(NORTHBOUND);
    options.session.transport.inactivity_probe = Some(Duration::from_millis(200));
    let mut client = Client::<AddressSet>::new(&remote.parse().unwrap(), options);
    up(&mut client).await;
    // Silent, but alive: the session continues.
    assert!(
        timeout(Duration::from_secs(1), client.next())
            .await
            .is_err()
    );
    database.northbound.process().signal(Signal::STOP);
    let error = down(&mut client).await;
    let inactive = TransportError::Inactive(Duration::from_millis(400)).to_string();
    assert!(error.to_string().contains(&inactive), "{error}");
    database.northbound.process().signal(Signal::CONT);
    up(&mut client).await;
}

async fn until_responsive(client: &mut Follower, responsive: bool) {
    while client.is_responsive() != responsive {
        let told = event(client).await;
        assert!(matches!(told, Event::Responsive(_)), "{told:?}");
    }
}

#[tokio::test]
async fn a_local_server_that_hangs_is_told_of_and_kept() {
    let mut database = Database::start().await;
    let mut options = ClientOptions::new(NORTHBOUND);
    options.session.transport.local_probe = Duration::from_millis(300);
    let remote = database.northbound.remote();
    let writer = RunningWriter::connected(&remote, options.clone(), policy(), |writer| writer);
    writer.store(StoreEvent::Synced(Vec::new())).await;
    writer.ready().await;
    let mut client = Client::<AddressSet>::new(&remote.parse().unwrap(), options);
    up(&mut client).await;
    database.northbound.process().signal(Signal::STOP);
    until_responsive(&mut client, false).await;
    assert!(client.replica().is_some());
    writer.not_ready("the server does not answer").await;
    database.northbound.process().signal(Signal::CONT);
    until_responsive(&mut client, true).await;
    // The same session continues.
    writer.ready().await;
    make_row(&mut client, "a1").await;
    assert_eq!(client.replica().unwrap().len(), 1);
    writer.stop().await;
}

#[tokio::test]
async fn a_transaction_that_is_not_answered_is_unknown() {
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
async fn a_transaction_whose_server_dies_is_unknown() {
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
async fn a_database_that_cannot_be_worked_with_is_one_clear_line() {
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
async fn a_guard_refuses_what_relies_on_something_that_has_changed() {
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

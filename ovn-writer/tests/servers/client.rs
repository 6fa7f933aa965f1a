//! The OVSDB client alone.

use ovsdb_replica::{Condition, Event, Operation, Outcome};

use crate::{
    follow::{client, event, insert, make_row, transact, up},
    harness::Database,
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

//! Several tables in one monitor, with columns of every kind.

use foldhash::HashSet;
use ovn_writer::address_set::{AddressSet, NORTHBOUND};
use ovsdb_replica::{Client, ClientOptions, Column, ColumnProblem, Datum, Event, Record};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{follow::PATIENCE, harness::Database};

ovsdb_replica::table! {
    /// A row of `ACL`, with its action as key.
    struct Acl in "ACL", key action: String {
        action: String,
        r#match: String,
    }
}

ovsdb_replica::table! {
    /// The address sets that a NAT rule refers to. Old schemas lack the second column.
    struct Nat in "NAT", key external_ip: String {
        external_ip: String,
        allowed_ext_ips: Option<Uuid>,
        exempted_ext_ips: Option<Uuid> = optional,
    }
}

type All = (AddressSet, Acl, Nat);

async fn changed(client: &mut Client<All>) -> (bool, bool, bool) {
    let (sets, acls, nats) = match timeout(PATIENCE, client.next()).await.unwrap() {
        Event::Changed(changes) => changes,
        other => panic!("{other:?}"),
    };
    let some = |keys: HashSet<String>| !keys.is_empty();
    (!sets.is_empty(), some(acls), some(nats))
}

#[tokio::test]
async fn tables_are_read_at_once_and_change_together() {
    let database = Database::start().await;
    let nbctl = |args: &[&str]| {
        let printed = database.northbound.nbctl(args).unwrap();
        printed.lines().last().unwrap_or_default().to_owned()
    };
    database
        .northbound
        .create_set("a1", "www.example.com.", proto::api::Family::V4, "[]");
    nbctl(&[
        "ls-add",
        "sw",
        "--",
        "acl-add",
        "sw",
        "to-lport",
        "1",
        "ip4.dst == $a1",
        "drop",
    ]);
    nbctl(&["lr-add", "r"]);
    let mut client = Client::<All>::new(
        &database.northbound.remote().parse().unwrap(),
        ClientOptions::new(NORTHBOUND),
    );
    let first = timeout(PATIENCE, client.next()).await.unwrap();
    assert!(matches!(first, Event::Up { .. }), "{first:?}");
    let (sets, acls, nats) = client.replica().unwrap();
    assert_eq!((sets.len(), acls.len(), nats.len()), (1, 1, 0));
    let set = sets.iter().next().unwrap().0;
    assert_eq!(acls.iter().next().unwrap().1.r#match, "ip4.dst == $a1");

    // Two tables in one transaction are one event.
    nbctl(&[
        "acl-del",
        "sw",
        "--",
        "add",
        "Address_Set",
        "a1",
        "addresses",
        "10.0.0.1",
    ]);
    assert_eq!(changed(&mut client).await, (true, true, false));
    assert!(client.replica().unwrap().1.is_empty());

    // A reference is added, changed, and removed.
    let other = nbctl(&["create", "Address_Set", "name=b1"]);
    let other: Uuid = other.parse().unwrap();
    let nat = nbctl(&[
        "--id=@nat",
        "create",
        "NAT",
        "type=snat",
        "external_ip=10.0.0.1",
        "logical_ip=10.1.0.0/16",
        &format!("allowed_ext_ips={set}"),
        "--",
        "add",
        "Logical_Router",
        "r",
        "nat",
        "@nat",
    ]);
    assert_eq!(changed(&mut client).await, (false, false, true));
    let nat: Uuid = nat.parse().unwrap();
    let allowed = |client: &Client<All>| {
        client
            .replica()
            .unwrap()
            .2
            .get(nat)
            .unwrap()
            .allowed_ext_ips
    };
    assert_eq!(allowed(&client), Some(set));
    let assign = format!("allowed_ext_ips={other}");
    nbctl(&["set", "NAT", &nat.to_string(), &assign]);
    assert_eq!(changed(&mut client).await, (false, false, true));
    assert_eq!(allowed(&client), Some(other));
    nbctl(&["clear", "NAT", &nat.to_string(), "allowed_ext_ips"]);
    assert_eq!(changed(&mut client).await, (false, false, true));
    assert_eq!(allowed(&client), None);
}

/// An ACL of which only the number is used.
#[derive(Default)]
struct Counted;

impl Record for Counted {
    const TABLE: &'static str = Acl::TABLE;
    const COLUMNS: &'static [Column] = Acl::COLUMNS;
    type Key = ();

    fn modify_column(&mut self, _: &str, _: Datum) -> Result<(), ColumnProblem> {
        Ok(())
    }

    fn key(&self) -> Option<()> {
        None
    }

    fn counts(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn counted_rows_raise_event_for_first_and_last() {
    let database = Database::start().await;
    let nbctl = |args: &[&str]| drop(database.northbound.nbctl(args).unwrap());
    nbctl(&["ls-add", "sw"]);
    let mut client = Client::<(AddressSet, Counted)>::new(
        &database.northbound.remote().parse().unwrap(),
        ClientOptions::new(NORTHBOUND),
    );
    let first = timeout(PATIENCE, client.next()).await.unwrap();
    assert!(matches!(first, Event::Up { .. }), "{first:?}");
    // The number of rows, and whether the event is about a set.
    let mut next = async || match timeout(PATIENCE, client.next()).await.unwrap() {
        Event::Changed((sets, _)) => (client.replica().unwrap().1.counted(), !sets.is_empty()),
        other => panic!("{other:?}"),
    };
    let acl = |number: &str| nbctl(&["acl-add", "sw", "to-lport", number, "ip4", "drop"]);
    acl("1");
    assert_eq!(next().await, (1, false));
    acl("2");
    nbctl(&["acl-del", "sw", "to-lport", "2", "ip4"]);
    database
        .northbound
        .create_set("a1", "www.example.com.", proto::api::Family::V4, "[]");
    assert_eq!(next().await, (1, true));
    acl("3");
    nbctl(&["acl-del", "sw"]);
    assert_eq!(next().await, (0, false));
}

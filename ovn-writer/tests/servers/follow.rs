//! The OVSDB client under test, and helpers that drive it.

use std::time::Duration;

use foldhash::HashSet;
use ovn_writer::address_set::{AddressSet, NORTHBOUND};
use ovsdb_replica::{
    Client, ClientOptions, Condition, Datum, Error, Event, Mutation, Mutator, Operation, Outcome,
    Row,
};
use proto::api::DnsName;
use tokio::time::timeout;
use uuid::Uuid;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Rows per transaction.
const BATCH: usize = 5000;

pub(crate) type Follower = Client<AddressSet>;

pub(crate) fn client(remotes: &str) -> Follower {
    client_with(remotes, ClientOptions::new(NORTHBOUND))
}

pub(crate) fn client_with(remotes: &str, options: ClientOptions) -> Follower {
    Client::new(&remotes.parse().unwrap(), options)
}

pub(crate) async fn event(client: &mut Follower) -> Event<HashSet<DnsName>> {
    timeout(PATIENCE, client.next()).await.expect("an event")
}

/// Waits for a session, and returns its server and whether it was resumed.
pub(crate) async fn up(client: &mut Follower) -> (String, bool) {
    loop {
        match event(client).await {
            Event::Up { remote, resumed } => return (remote.to_string(), resumed),
            Event::Down { .. } | Event::Changed(_) | Event::Ended { .. } => {}
        }
    }
}

/// Waits for the end of a session, or a failed attempt.
pub(crate) async fn down(client: &mut Follower) -> Error {
    loop {
        if let Event::Down { error, .. } = event(client).await {
            return error;
        }
    }
}

/// Follows until the replica is `good`, across all events.
pub(crate) async fn until(client: &mut Follower, what: &str, good: impl Fn(&Follower) -> bool) {
    let following = async {
        while !good(client) {
            client.next().await;
        }
    };
    if timeout(PATIENCE, following).await.is_err() {
        panic!("{what}: not within {PATIENCE:?}; {:?}", addresses(client));
    }
}

/// The addresses of all rows, sorted; `None` without a session.
pub(crate) fn addresses(client: &Follower) -> Option<Vec<String>> {
    let rows = client.replica()?.iter();
    let mut all: Vec<_> = rows
        .flat_map(|(_, row)| row.addresses().iter().map(|address| address.to_string()))
        .collect();
    all.sort();
    Some(all)
}

pub(crate) fn insert(name: &str) -> Operation {
    let ids = [
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", "www.example.com."),
        ("ip-family", "v4"),
    ];
    let row = Row::from([
        ("name".into(), name.into()),
        ("external_ids".into(), Datum::string_map(ids)),
    ]);
    Operation::insert("Address_Set", row)
}

pub(crate) fn add(row: Uuid, address: &str) -> Operation {
    Operation::Mutate {
        table: "Address_Set".into(),
        filter: vec![Condition::uuid(row)],
        mutations: vec![Mutation(
            "addresses".into(),
            Mutator::Insert,
            Datum::strings([address]),
        )],
    }
}

/// Carries a transaction out, and waits until the replica has its changes.
pub(crate) async fn transact(client: &mut Follower, operations: Vec<Operation>) -> Outcome {
    let sent = client.transact(operations).expect("a session");
    loop {
        match event(client).await {
            Event::Ended { id, outcome } if id == sent => return outcome,
            Event::Down { error, unknown, .. } if unknown == [sent] => {
                return Outcome::Unknown(error);
            }
            Event::Changed(_) => {}
            other => panic!("{other:?} before the outcome of {sent:?}"),
        }
    }
}

/// Inserts a row, and returns its `_uuid`.
pub(crate) async fn make_row(client: &mut Follower, name: &str) -> Uuid {
    match transact(client, vec![insert(name)]).await {
        Outcome::Done(results) => results[0].uuid().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Inserts rows that the client does not monitor.
pub(crate) async fn fill(client: &mut Follower, rows: usize) {
    let ids = [("k8s.ovn.org/owner-type", "Namespace")];
    let row = |n: usize| {
        Row::from([
            ("name".into(), format!("other{n}").as_str().into()),
            ("external_ids".into(), Datum::string_map(ids)),
            ("addresses".into(), Datum::strings(["10.9.9.9"])),
        ])
    };
    for start in (0..rows).step_by(BATCH) {
        let insert = |n| Operation::insert("Address_Set", row(n));
        let operations = (start..rows.min(start + BATCH)).map(insert).collect();
        let outcome = transact(client, operations).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
}

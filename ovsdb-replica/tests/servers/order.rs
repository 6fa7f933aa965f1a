//! The replica has the changes of a transaction before its outcome, however many are pending.

use std::collections::{BTreeSet, VecDeque};

use ovsdb_replica::{
    Client, ClientOptions, Condition, Datum, Event, Function, Mutation, Mutator, Operation,
    Outcome, Row,
};

use crate::server::{DATABASE, Server, within};

const TRANSACTIONS: usize = 10_000;

/// Pending transactions at a time.
const IN_FLIGHT: usize = 16;

ovsdb_replica::table! {
    /// An address set.
    struct AddressSet in "Address_Set", key name: String {
        name: String,
        addresses: BTreeSet<String>,
    }
}

/// Creates a set, adds one address after another, and checks the replica at each outcome.
async fn fill_set(remote: &str, name: &str) {
    let remotes = remote.parse().unwrap();
    let mut client = Client::<AddressSet>::new(&remotes, ClientOptions::new(DATABASE));
    let event = within(client.next()).await;
    assert!(matches!(event, Event::Up { .. }), "{event:?}");
    let row = Row::from([("name".into(), name.into())]);
    let made = client.transact(vec![Operation::insert("Address_Set", row)]);
    let mut addresses = (0..TRANSACTIONS).map(|n| format!("address{n}"));
    let mut in_flight = VecDeque::from([(made.unwrap(), None)]);
    while let Some((sent, address)) = in_flight.pop_front() {
        let outcome = loop {
            match within(client.next()).await {
                Event::Changed(_) => {}
                Event::Ended { id, outcome } if id == sent => break outcome,
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        let sets = client.replica().unwrap();
        let (_, set) = sets.with_key(&name.to_owned()).next().unwrap();
        if let Some(address) = address {
            assert!(
                set.addresses.contains(&address),
                "{address} is not there yet"
            );
        }
        while in_flight.len() < IN_FLIGHT
            && let Some(address) = addresses.next()
        {
            let id = client.transact(vec![add(name, &address)]);
            in_flight.push_back((id.unwrap(), Some(address)));
        }
    }
    let sets = client.replica().unwrap();
    let (_, set) = sets.with_key(&name.to_owned()).next().unwrap();
    assert_eq!(set.addresses.len(), TRANSACTIONS);
}

/// Puts an address into a set.
fn add(name: &str, address: &str) -> Operation {
    let addresses = Datum::strings([address]);
    Operation::Mutate {
        table: "Address_Set".into(),
        filter: vec![Condition("name".into(), Function::Equal, name.into())],
        mutations: vec![Mutation("addresses".into(), Mutator::Insert, addresses)],
    }
}

#[tokio::test]
async fn replica_has_10000_transactions_before_their_outcomes_under_load() {
    let server = Server::start();
    let remote = server.remote();
    // Each client is the load of the other: every change is an update for both.
    tokio::join!(fill_set(&remote, "a"), fill_set(&remote, "b"));
}

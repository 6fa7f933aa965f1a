//! What a transaction changed is in the replica before its outcome, however many are under way.

use std::{collections::VecDeque, net::Ipv4Addr};

use ovsdb_replica::{Event, Outcome};

use crate::{
    follow::{add, client, event, make_row, up},
    harness::Database,
};

const TRANSACTIONS: u32 = 10_000;

/// Transactions under way at a time.
const IN_FLIGHT: usize = 16;

/// Puts an address after another into a set, and looks at the replica at each outcome.
async fn fill_set(remote: &str, name: &str) {
    let mut client = client(remote);
    up(&mut client).await;
    let row = make_row(&mut client, name).await;
    let mut addresses = (0..TRANSACTIONS).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n));
    let mut in_flight = VecDeque::new();
    loop {
        while in_flight.len() < IN_FLIGHT
            && let Some(address) = addresses.next()
        {
            let id = client.transact(vec![add(row, &address.to_string())]);
            in_flight.push_back((id.unwrap(), address));
        }
        if in_flight.is_empty() {
            break;
        }
        match event(&mut client).await {
            Event::Changed(_) => {}
            Event::Ended {
                id,
                outcome: Outcome::Done(_),
            } => {
                let (sent, address) = in_flight.pop_front().unwrap();
                assert_eq!(id, sent);
                let set = client.replica().unwrap().get(row).unwrap();
                assert!(set.holds(&address.into()), "{address} is not there yet");
            }
            other => panic!("{other:?}"),
        }
    }
    let set = client.replica().unwrap().get(row).unwrap();
    assert_eq!(set.addresses().len(), TRANSACTIONS as usize);
}

#[tokio::test]
async fn the_replica_knows_of_10000_transactions_before_their_outcomes_under_load() {
    let database = Database::start().await;
    let remote = database.northbound.remote();
    // The second client is the load of the first: each change of one is an update for both.
    tokio::join!(fill_set(&remote, "a1"), fill_set(&remote, "a2"));
}

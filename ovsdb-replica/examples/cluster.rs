//! Follows the address sets of a raft cluster through its current leader.
//!
//! `cargo run --example cluster -- tcp:10.0.0.1:6641,tcp:10.0.0.2:6641,tcp:10.0.0.3:6641`
//!
//! With several remotes the client uses only the leader. It leaves a server that loses the lead or its cluster, or that
//! is behind another server's last known state, and tries the others.
#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::collections::BTreeSet;

use ovsdb_replica::{Client, ClientOptions, Event};

ovsdb_replica::table! {
    /// A row of OVN's table of address sets.
    pub struct AddressSet in "Address_Set", key name: String {
        /// The name of the set.
        pub name: String,
        /// Its addresses.
        pub addresses: BTreeSet<String>,
    }
}

/// Prints the events, until `is_enough` returns true for the number of sets.
pub async fn follow(
    remotes: &str,
    is_enough: impl Fn(usize) -> bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let options = ClientOptions::new("OVN_Northbound");
    let mut client = Client::<AddressSet>::new(&remotes.parse()?, options);
    loop {
        match client.next().await {
            Event::Up { remote, resumed } => println!("{remote} leads; resumed: {resumed}"),
            Event::Down { remote, error, .. } => println!("{remote}: {error}"),
            Event::Changed(names) => println!("changed: {names:?}"),
            Event::Ended { .. } => {}
        }
        if client.replica().is_some_and(|sets| is_enough(sets.len())) {
            return Ok(());
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let remotes = std::env::args().nth(1).ok_or("usage: cluster REMOTE,…")?;
    follow(&remotes, |_| false).await
}

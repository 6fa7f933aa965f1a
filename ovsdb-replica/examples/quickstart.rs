//! Creates an address set in OVN's northbound database: connect, monitor, change, wait.
//!
//! `cargo run --example quickstart -- unix:/run/ovn/ovnnb_db.sock my_set`
#![allow(clippy::print_stdout, reason = "an example says what it does")]

use ovsdb_replica::{Client, ClientOptions, Event, NextStep, Operation, Outcome, Row};

ovsdb_replica::table! {
    /// An address set of OVN.
    pub struct AddressSet in "Address_Set", key name: String {
        /// Its name.
        pub name: String,
    }
}

/// Creates an address set if there is none of this name, and returns how many there are.
pub async fn make_set(remote: &str, name: String) -> Result<usize, Box<dyn std::error::Error>> {
    let options = ClientOptions::new("OVN_Northbound");
    let mut client = Client::<AddressSet>::new(&remote.parse()?, options);
    loop {
        let event = client.next().await;
        let sets = client.replica();
        if let Some(sets) = sets.filter(|sets| sets.has_key(&name)) {
            return Ok(sets.len());
        }
        match event {
            Event::Up { .. } => {
                let row = Row::from([("name".into(), name.as_str().into())]);
                client.transact(vec![Operation::insert("Address_Set", row)]);
            }
            Event::Ended { outcome, .. } => match outcome {
                Outcome::Refused(refusal) => return Err(refusal.into()),
                Outcome::Unknown(_) => client.restart(), // `Event::Up` will show whether the row exists.
                Outcome::Done(_) => {} // The set was created, replicated, and deleted again.
            },
            Event::Down { error, .. } if error.next_step() == NextStep::Refuse => Err(error)?,
            _ => {}
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(remote), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: quickstart REMOTE NAME".into());
    };
    println!("{} address sets", make_set(&remote, name).await?);
    Ok(())
}

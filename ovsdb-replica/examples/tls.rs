//! Connects over TLS, and prints the number of address sets.
//!
//! `cargo run --example tls -- ssl:nb.example:6641 ca.pem client-key.pem client-cert.pem`
//!
//! The files are read again for each connection, so that renewed certificates are used without a restart.
#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::path::PathBuf;

use ovsdb_replica::{Client, ClientOptions, Event, NextStep, TlsIdentity, TlsOptions};

ovsdb_replica::table! {
    /// A row of OVN's table of address sets.
    pub struct AddressSet in "Address_Set", key name: String {
        /// The name of the set.
        pub name: String,
    }
}

/// The number of address sets.
pub async fn count(remote: &str, tls: TlsOptions) -> Result<usize, Box<dyn std::error::Error>> {
    let mut options = ClientOptions::new("OVN_Northbound");
    options.session.transport.tls = Some(tls);
    let mut client = Client::<AddressSet>::new(&remote.parse()?, options);
    loop {
        match client.next().await {
            Event::Up { .. } => return Ok(client.replica().map_or(0, |sets| sets.len())),
            Event::Down { error, .. } if error.next_step() == NextStep::Refuse => {
                return Err(error.into());
            }
            _ => {}
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [remote, ca_cert, private_key, certificate] = arguments.as_slice() else {
        return Err("usage: tls REMOTE CA KEY CERTIFICATE".into());
    };
    let tls = TlsOptions {
        ca_cert: ca_cert.into(),
        identity: Some(TlsIdentity {
            private_key: PathBuf::from(private_key),
            certificate: PathBuf::from(certificate),
        }),
    };
    println!("{} address sets", count(remote, tls).await?);
    Ok(())
}

//! A client of OVSDB, the database of Open vSwitch and OVN (RFC 7047, ovsdb-server(7)).
//!
//! | module | content |
//! |---|---|
//! | [`value`] | atoms, sets and maps, as in JSON |
//! | [`schema`] | checks that a database has the columns of the client |
//! | [`remote`] | `unix:`, `tcp:` and `ssl:` remotes |
//! | `reconnect` | the order of the remotes, and the waits between attempts |
//! | [`transport`] | a socket under jsonrpsee: TLS, framing, limits, JSON-RPC 1.0, `echo` |
//! | [`session`] | one connection: requests with deadlines, notifications in their order |
//! | `server` | the server's state: leader or not, connected to its cluster, behind |
//! | [`monitor`] | monitor requests and their updates |
//! | [`columns`] | declared tables |
//! | [`replica`] | a copy of a table's rows in the client's own types, kept equal by updates |
//! | [`tables`] | several replicas at once |
//! | [`transact`] | operations, and the three outcomes of a transaction: done, refused, unknown |
//! | [`client`] | all of it together: a continuously replicated database |
//!
//! `value`, `schema`, `remote`, `reconnect`, `server`, `monitor`, `replica`, `tables`, `transact` and the framing do no
//! IO.
//!
//! # Use
//! A client declares the columns and rows that it needs ([`table!`]), or how it stores a row ([`Record`]). It calls
//! [`Client::next`] for as long as it lives. For several tables it takes a tuple of records ([`Tables`]). Between the
//! calls it reads [`Client::replica`], computes the needed changes, and sends them with [`Client::transact`]. The
//! outcome is an event like others, [`Event::Ended`]:
//!
//! - [`Outcome::Done`]: the transaction is in the database, and the replica already has its updates.
//! - [`Outcome::Refused`]: it is not; the server's error says why.
//! - [`Outcome::Unknown`]: call [`Client::restart`], and compute it again from the replica that [`Event::Up`] brings.
//!
//! Tasks of the tokio runtime in which [`Client::next`] is called own the connection: they write, read, and answer the
//! server's `echo`. While [`Client::next`] is not called, at most 4 MiB are read ahead, and then the server has to
//! wait. A runtime of one thread is the fastest. It must not be blocked for long, since a server disconnects a client
//! that is silent for 10 s.
//!
//! Every error ends the session, and a new connection replaces it; the client never guesses. If the server supports it
//! (`monitor_cond_since`) and the replica is valid, only the changes since are read, otherwise everything.
//!
//! # Clusters
//! With several remotes, a server of a cluster (ovsdb(7), "Clustered Database Service Model") must be its leader.
//! The client leaves a server that loses the lead, loses its
//! cluster, is removed from it, or falls behind another server's last known state.
//!
//! ```no_run
//! use std::collections::BTreeSet;
//!
//! use ovsdb_replica::{Client, ClientOptions, Event, Uuid};
//!
//! ovsdb_replica::table! {
//!     /// A bridge.
//!     struct Bridge in "Bridge", key name: String {
//!         name: String,
//!         ports: BTreeSet<Uuid>,
//!     }
//! }
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let remotes = "unix:/run/openvswitch/db.sock,tcp:127.0.0.1:6640".parse()?;
//! let mut client = Client::<Bridge>::new(&remotes, ClientOptions::new("Open_vSwitch"));
//! loop {
//!     match client.next().await {
//!         Event::Up { remote, .. } => println!("{remote}: {:?} bridges", client.replica().map(|r| r.len())),
//!         Event::Changed(names) => println!("changed: {names:?}"),
//!         Event::Ended { outcome, .. } => println!("a transaction ended: {outcome:?}"),
//!         Event::Down { remote, error, .. } => println!("{remote}: {error}"),
//!     }
//! }
//! # }
//! ```

#![deny(missing_docs)]

pub mod client;
pub mod columns;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod monitor;
mod reconnect;
pub mod remote;
pub mod replica;
mod replica_error;
pub mod schema;
mod server;
pub mod session;
pub mod tables;
pub mod transact;
pub mod transport;
pub mod value;

pub use smol_str::SmolStr;
pub use uuid::Uuid;

pub use self::{
    client::{Client, ClientOptions, Event},
    error::{Error, NextStep, ServerError},
    remote::{HostPort, Remote, RemoteError, Remotes},
    replica::{Record, Replica},
    replica_error::{ColumnError, ColumnProblem, ReplicaError},
    schema::{BaseType, Column, ColumnType, Schema, SchemaError},
    session::{SessionOptions, TransactionId},
    tables::Tables,
    transact::{Condition, Function, Mutation, Mutator, Operation, Outcome, Refusal, Until},
    transport::{Limits, TlsIdentity, TlsOptions, TransportError, TransportOptions},
    value::{Atom, Datum, Row},
};

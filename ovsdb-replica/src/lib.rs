//! A client of OVSDB, the database of Open vSwitch and OVN (RFC 7047, ovsdb-server(7)).
//!
//! | room | what it does |
//! |---|---|
//! | [`value`] | atoms, sets and maps, as they stand in JSON |
//! | [`schema`] | whether a database has the columns that a client needs |
//! | [`remote`] | `unix:`, `tcp:` and `ssl:` remotes |
//! | `reconnect` | the order in which remotes are tried, and the waits between |
//! | [`transport`] | a socket under jsonrpsee: TLS, framing, bounds, JSON-RPC 1.0, `echo` |
//! | [`session`] | one connection: requests with deadlines, notifications in their order |
//! | `server` | what a server says of itself: whether it leads its cluster, is in touch with it, is behind |
//! | [`monitor`] | what to ask of tables, and what comes |
//! | [`columns`] | tables that are declared in one place |
//! | [`replica`] | a copy of a table's rows in the client's own types, kept equal by updates |
//! | [`tables`] | several of them at once |
//! | [`transact`] | operations, and the three ways in which a transaction ends: done, refused, unknown |
//! | [`client`] | all of it together: a database that is kept replicated, whatever happens |
//!
//! `value`, `schema`, `remote`, `reconnect`, `server`, `monitor`, `replica`, `tables`, `transact` and the framing do no
//! IO.
//!
//! # Use
//! A client declares which columns of which rows it wants ([`table!`]), or how it keeps a row ([`Record`]), and calls [`Client::next`]
//! for as long as it lives. For several tables it takes a tuple of records ([`Tables`]). Between the calls it looks at
//! [`Client::replica`], works out what is to be different, and sends that with [`Client::transact`]. Its outcome is an event
//! like others, [`Event::Ended`]:
//!
//! - [`Outcome::Done`]: it is in the database, and the updates that say so came before.
//! - [`Outcome::Refused`]: it is not; the server's words say why.
//! - [`Outcome::Unknown`]: call [`Client::restart`], and work it out again from the replica that [`Event::Up`] brings.
//!
//! The connection is in the hands of tasks of the tokio runtime in which [`Client::next`] is called: they write, read, and answer the
//! server's `echo`. While [`Client::next`] is not called, at most 64 KiB are read ahead, and the server is held up. A runtime of one
//! thread is the fastest; it must not be blocked for long, since a server gives up a client that says nothing for 10 s.
//!
//! Every error ends the session: there is a new connection, and no guess. What happened in between is read if the server
//! knows (`monitor_cond_since`) and if nothing was in doubt; everything is read otherwise.
//!
//! # Clusters
//! With several remotes, a server of a cluster (ovsdb(7), "Clustered Database Service Model") must be its leader, unless
//! [`ClientOptions::leader_only`] says otherwise. A server is left when it loses the lead, loses its cluster, is removed
//! from it, or falls behind what another one has shown.
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
//!         Event::Responsive(responsive) => println!("the server answers: {responsive}"),
//!         Event::Down { remote, error, .. } => println!("{remote}: {error}"),
//!     }
//! }
//! # }
//! ```

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
    transport::{Limits, TlsIdentity, TlsOptions, TransportError, TransportOptions, Verify},
    value::{Atom, Datum, Row},
};

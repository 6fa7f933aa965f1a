//! A client of OVSDB, the database of Open vSwitch and OVN (RFC 7047, ovsdb-server(7)).
//!
//! | room | what it does |
//! |---|---|
//! | [`value`] | atoms, sets and maps, as they stand in JSON |
//! | [`schema`] | whether a database has the columns that a client needs |
//! | [`remote`] | `unix:` and `tcp:` remotes, and the order in which they are tried |
//! | [`transport`] | a socket as a stream of messages: framing, bounds, `echo`, JSON-RPC 1.0 for a library that speaks 2.0 |
//! | [`session`] | one connection: requests with deadlines, notifications in their order |
//! | [`monitor`] | what to ask of a table |
//! | [`replica`] | a copy of a table's rows in the client's own types, kept equal by updates |
//! | [`transact`] | operations, and the three ways in which a transaction ends: done, refused, unknown |
//! | [`client`] | all of it together: a database that is kept replicated, whatever happens |
//!
//! `value`, `schema`, `remote`, `monitor`, `replica`, `transact` and the framing do no IO.
//!
//! # Use
//! A client says how it wants to keep a row ([`Record`]), what it needs of the database ([`ClientOptions`]), and calls
//! [`Client::next`] for as long as it lives. Between the calls it looks at [`Client::replica`], works out what is to be
//! different, and sends that with [`Client::transact`]:
//!
//! - [`Outcome::Done`]: it is in the database, and the updates that say so came before.
//! - [`Outcome::Refused`]: it is not; the server's words say why.
//! - [`Outcome::Unknown`]: call [`Client::restart`], and work it out again from the replica that [`Event::Up`] brings.
//!
//! Every error ends the session: there is a new connection, a new reading, and no guess.
//!
//! ```no_run
//! use ovn_writer::ovsdb::{
//!     Backoff, Client, ClientOptions, ColumnError, ColumnProblem, Event, MonitorRequest, Record,
//!     Row, SessionOptions,
//! };
//!
//! struct Bridge {
//!     name: String,
//! }
//!
//! impl Record for Bridge {
//!     const TABLE: &'static str = "Bridge";
//!     type Key = String;
//!
//!     fn read(columns: Row) -> Result<Self, ColumnError> {
//!         let mut bridge = Self { name: String::new() };
//!         bridge.modify(columns)?;
//!         Ok(bridge)
//!     }
//!
//!     fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
//!         for (column, value) in difference {
//!             match (column.as_str(), value.into_string()) {
//!                 ("name", Ok(name)) => self.name = name,
//!                 ("name", Err(problem)) => return Err(ColumnProblem::from(problem).of(column)),
//!                 _ => return Err(ColumnProblem::Unknown.of(column)),
//!             }
//!         }
//!         Ok(())
//!     }
//!
//!     fn key(&self) -> Option<String> {
//!         Some(self.name.clone())
//!     }
//! }
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ClientOptions {
//!     database: "Open_vSwitch".to_owned(),
//!     required: Vec::new(),
//!     request: MonitorRequest { columns: vec!["name".to_owned()], conditions: Vec::new() },
//!     transact_deadline: std::time::Duration::from_secs(10),
//!     backoff: Backoff::default(),
//!     session: SessionOptions::default(),
//! };
//! let remotes = "unix:/run/openvswitch/db.sock,tcp:127.0.0.1:6640".parse()?;
//! let mut client = Client::<Bridge>::new(&remotes, options);
//! loop {
//!     match client.next().await {
//!         Event::Up { remote } => println!("{remote}: {:?} bridges", client.replica().map(|r| r.len())),
//!         Event::Changed(names) => println!("changed: {names:?}"),
//!         Event::Down { remote, error, .. } => println!("{remote}: {error}"),
//!     }
//! }
//! # }
//! ```

pub mod client;
mod error;
pub mod monitor;
pub mod remote;
pub mod replica;
pub mod schema;
mod server;
pub mod session;
pub mod transact;
pub mod transport;
pub mod value;

pub use self::{
    client::{Client, ClientOptions, Event},
    error::{Error, ServerError},
    monitor::MonitorRequest,
    remote::{Backoff, Remote, RemoteError, Remotes},
    replica::{ColumnError, ColumnProblem, Record, Replica, ReplicaError},
    schema::{ColumnType, RequiredColumn, Schema, SchemaError},
    session::{Session, SessionOptions},
    transact::{Condition, Function, Mutation, Mutator, Operation, Outcome, Refusal, Until},
    transport::{Limits, TransportError, TransportOptions},
    value::{Atom, Datum, Row},
};

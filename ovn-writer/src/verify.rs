//! One comparison of store and database.

use std::{collections::BTreeMap, fmt, pin::pin, time::Duration};

use futures_util::{Stream, StreamExt};
use ovsdb_replica::{Client, ClientOptions, Error, Event, Operation, Outcome, Refusal, Remotes};
use proto::api::DnsNameResolver;
use runtime::{inspect::text::few, store::Event as StoreEvent};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    references::{Northbound, NorthboundReplica},
    report::NameReport,
    sync::{Differences, Policy, Reconciler, SyncEvent, SyncState},
};

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Names in the store.
    pub objects: usize,
    /// Rows for DNS names in the database.
    pub rows: usize,
    /// Whether ovn-kubernetes manages the address sets of the database.
    pub managed: bool,
    /// The counts of differences; a running writer's metrics have the same.
    pub differences: Differences,
    /// The absent names in use; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<Absent>,
    /// How many rows have marks of other stores, by store. They lose only addresses that this program added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub other_stores: BTreeMap<String, usize>,
    /// The names that differ, sorted.
    pub names: Vec<NameReport>,
}

/// The names of sets that rules use and that have no object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Absent {
    /// Sorted.
    pub names: Vec<String>,
}

impl Absent {
    /// `None` if there are none.
    pub(crate) fn of(state: &SyncState) -> Option<Self> {
        let names: Vec<_> = state.absent().iter().map(ToString::to_string).collect();
        (!names.is_empty()).then_some(Self { names })
    }
}

impl fmt::Display for Absent {
    /// One line, with the first names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} names in use have no DNSNameResolver object, and their address sets keep their addresses: {}",
            self.names.len(),
            few(self.names.iter(), 3)
        )
    }
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The store was not read in time.
    #[error("the store was not read within {0:?}{reason}", reason = .1.as_ref().map_or(String::new(), |reason| format!(": {reason}")))]
    Store(Duration, Option<String>),
    /// The watch of the store ended.
    #[error("the watch of the store ended")]
    StoreEnded,
    /// The database was not read in time.
    #[error("the northbound database was not read within {0:?}{reason}", reason = .1.as_ref().map_or(String::new(), |reason| format!(": {reason}")))]
    Database(Duration, Option<String>),
    /// The database did not answer whether ovn-kubernetes manages it, or which sets it has.
    #[error("the northbound database does not answer: {0}")]
    Probe(Error),
    /// The session with the database ended.
    #[error("the session with the northbound database ended{reason}", reason = .0.as_ref().map_or(String::new(), |error| format!(": {error}")))]
    Lost(Option<Error>),
    /// The database refused to list its sets.
    #[error("the northbound database refuses to list its address sets: {0}")]
    Refused(Refusal),
}

/// A comparison by a running ovn-writer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Whether store and database agree.
    is_same: bool,
    /// All of it as lines of text.
    text: Vec<String>,
    #[serde(flatten)]
    verified: Verified,
}

impl From<Verified> for Comparison {
    fn from(verified: Verified) -> Self {
        Self {
            is_same: verified.is_same(),
            text: verified.to_string().lines().map(str::to_owned).collect(),
            verified,
        }
    }
}

impl Verified {
    /// The differences that a running ovn-writer knows.
    pub(crate) fn known(
        state: &SyncState,
        replica: &NorthboundReplica,
        now: std::time::Instant,
    ) -> Self {
        let names = state.differing().map(|name| {
            let plan = state.look(name, replica, now);
            NameReport::of(name, &plan, replica, &state.references)
        });
        Self::of(state, replica, names.collect())
    }

    fn of(state: &SyncState, replica: &NorthboundReplica, mut names: Vec<NameReport>) -> Self {
        names.retain(|name| !name.sets.is_empty());
        names.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            objects: state.desired.objects(),
            rows: replica.0.len(),
            managed: state.is_managed(),
            differences: state.differences,
            absent: Absent::of(state),
            other_stores: state.other_stores(replica),
            names,
        }
    }

    /// Whether store and database agree.
    pub fn is_same(&self) -> bool {
        self.names.is_empty()
    }
}

impl fmt::Display for Verified {
    /// Several lines, the last one without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.names {
            writeln!(f, "{name}")?;
        }
        if let Some(absent) = &self.absent {
            writeln!(f, "{absent}")?;
        }
        for (store, rows) in &self.other_stores {
            writeln!(
                f,
                "{rows} rows are marked for another store, {store}, and lose only addresses that this one added"
            )?;
        }
        let found = &self.differences;
        write!(
            f,
            "{} objects, {} rows: {} missing rows, {} name clashes, {} missing addresses, {} surplus addresses, {} unwanted rows",
            self.objects,
            self.rows,
            found.missing_rows,
            found.name_clashes,
            found.missing_addresses,
            found.surplus_addresses,
            found.unwanted_rows
        )
    }
}

/// Reads both sides once and compares them.
///
/// # Errors
/// [`VerifyError`] if either cannot be read within `deadline`.
pub async fn verify(
    remotes: &Remotes,
    options: ClientOptions,
    policy: Policy,
    objects: impl Stream<Item = StoreEvent<DnsNameResolver>>,
    deadline: Duration,
) -> Result<Verified, VerifyError> {
    let mut sync = Reconciler::new(policy);
    let until = Instant::now() + deadline;
    read_store(&mut sync, objects, until, deadline).await?;
    let mut client = Client::<Northbound>::new(remotes, options);
    read_database(&mut client, until, deadline).await?;
    if let Some(replica) = client.replica() {
        sync.handle(SyncEvent::DatabaseRead(replica), now());
    }
    if let Some(probe) = sync.probe() {
        ask(&mut client, &mut sync, probe).await?;
    }
    let question = sync.ask_names([]);
    if let Outcome::Refused(refusal) = ask(&mut client, &mut sync, question).await? {
        return Err(VerifyError::Refused(refusal));
    }
    let replica = client.replica().ok_or(VerifyError::Lost(None))?;
    let plans = sync.next_plans(replica, now());
    let state = sync.state();
    let names = plans.iter();
    let names = names.map(|(name, plan)| NameReport::of(name, plan, replica, &state.references));
    Ok(Verified::of(state, replica, names.collect()))
}

/// Sends the database a query, and follows its changes meanwhile.
async fn ask(
    client: &mut Client<Northbound>,
    sync: &mut Reconciler,
    question: Vec<Operation>,
) -> Result<Outcome, VerifyError> {
    let asked = client.transact(question);
    let asked = asked.ok_or(VerifyError::Lost(None))?;
    loop {
        match (client.next().await, client.replica()) {
            (Event::Changed(changes), Some(replica)) => {
                sync.handle(SyncEvent::DatabaseChanged(replica, changes), now());
            }
            (Event::Ended { id, outcome }, _) if id == asked => {
                sync.handle(SyncEvent::Answered(&outcome), now());
                return match outcome {
                    Outcome::Unknown(error) => Err(VerifyError::Probe(error)),
                    outcome => Ok(outcome),
                };
            }
            (Event::Down { error, .. }, _) => return Err(VerifyError::Lost(Some(error))),
            (Event::Up { .. } | Event::Changed(_) | Event::Ended { .. }, _) => {
                return Err(VerifyError::Lost(None));
            }
        }
    }
}

async fn read_store(
    sync: &mut Reconciler,
    objects: impl Stream<Item = StoreEvent<DnsNameResolver>>,
    until: Instant,
    deadline: Duration,
) -> Result<(), VerifyError> {
    let mut objects = pin!(objects);
    let mut reason = None;
    let reading = async {
        loop {
            let event = objects.next().await.ok_or(VerifyError::StoreEnded)?;
            let is_whole = matches!(event, StoreEvent::Synced(_));
            if let StoreEvent::OutOfSync(why) = &event {
                reason = Some(why.clone());
            }
            sync.handle(SyncEvent::Store(&event), now());
            if is_whole {
                return Ok(());
            }
        }
    };
    match timeout_at(until, reading).await {
        Ok(read) => read,
        Err(_) => Err(VerifyError::Store(deadline, reason)),
    }
}

async fn read_database(
    client: &mut Client<Northbound>,
    until: Instant,
    deadline: Duration,
) -> Result<(), VerifyError> {
    let mut reason = None;
    let reading = async {
        loop {
            match client.next().await {
                Event::Up { .. } => return,
                Event::Changed(_) | Event::Ended { .. } => {}
                Event::Down { remote, error, .. } => reason = Some(format!("{remote}: {error}")),
            }
        }
    };
    match timeout_at(until, reading).await {
        Ok(()) => Ok(()),
        Err(_) => Err(VerifyError::Database(deadline, reason)),
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

//! Store and database compared once.

use std::{collections::BTreeMap, fmt, pin::pin, time::Duration};

use futures_util::{Stream, StreamExt};
use ovsdb_replica::{Client, ClientOptions, Error, Event, Operation, Outcome, Refusal, Remotes};
use proto::api::DnsNameResolver;
use runtime::store::Event as StoreEvent;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    references::Northbound,
    report::NameReport,
    sync::{Differences, Policy, Reconciler, absence::Absence},
};

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Names in the store.
    pub objects: usize,
    /// Rows for DNS names in the database.
    pub rows: usize,
    /// Whether ovn-kubernetes manages the address sets of the database.
    pub managed: bool,
    /// How many differences there are; the metrics of a writer at work say the same.
    pub differences: Differences,
    /// The names that are in use and whose objects are absent; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<Absent>,
    /// How many rows are marked for stores that neither `--store` nor `--former-store` names, by store. They are left alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub other_stores: BTreeMap<String, usize>,
    /// The names that differ, in order.
    pub names: Vec<NameReport>,
}

/// Names that are in use and whose objects are absent.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// The names, in order.
    pub names: Vec<String>,
    /// How many names are in use.
    pub in_use: usize,
    /// Whether these are so many that their absence is not believed, and the store becomes suspect.
    pub too_many: bool,
    /// All of it in a line.
    #[serde(skip)]
    line: String,
}

impl Absent {
    fn of(absence: &Absence) -> Option<Self> {
        (!absence.names.is_empty()).then(|| Self {
            names: absence.names.iter().map(ToString::to_string).collect(),
            in_use: absence.in_use,
            too_many: absence.is_exceeded,
            line: absence.to_string(),
        })
    }
}

/// Why nothing could be compared.
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
    /// The database did not say whether ovn-kubernetes manages it, or which sets it has.
    #[error("the northbound database does not answer: {0}")]
    Probe(Error),
    /// The session with the database ended.
    #[error("the session with the northbound database ended{reason}", reason = .0.as_ref().map_or(String::new(), |error| format!(": {error}")))]
    Lost(Option<Error>),
    /// The database did not say which sets it has.
    #[error("the northbound database does not tell the names of its address sets: {0}")]
    Refused(Refusal),
}

impl Verified {
    /// Whether store and database agree.
    pub fn is_same(&self) -> bool {
        self.names.is_empty()
    }
}

impl fmt::Display for Verified {
    /// Several lines, the last one without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.names {
            writeln!(f, "{name}")?;
        }
        if let Some(Absent { line, too_many, .. }) = &self.absent {
            let suspect = if *too_many {
                "the store is suspect: "
            } else {
                ""
            };
            writeln!(f, "{suspect}{line}")?;
        }
        for (store, rows) in &self.other_stores {
            writeln!(
                f,
                "{rows} rows are marked for another store and left alone: --former-store {store} takes them over"
            )?;
        }
        let Differences {
            missing_rows,
            name_clashes,
            missing_addresses,
            surplus_addresses,
            unwanted_rows,
            ..
        } = self.differences;
        write!(
            f,
            "{} objects, {} rows: {missing_rows} missing rows, {name_clashes} name clashes, {missing_addresses} missing addresses, \
             {surplus_addresses} surplus addresses, {unwanted_rows} unwanted rows",
            self.objects, self.rows
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
        sync.database_read(replica);
    }
    if let Some(probe) = sync.probe() {
        let outcome = ask(&mut client, &mut sync, probe).await?;
        sync.told(&outcome);
    }
    let outcome = ask(&mut client, &mut sync, Reconciler::ask_names()).await?;
    if let Outcome::Refused(refusal) = outcome {
        return Err(VerifyError::Refused(refusal));
    }
    sync.told(&outcome);
    let replica = client.replica().ok_or(VerifyError::Lost(None))?;
    let now = Instant::now().into_std();
    let plans = sync.next_plans(replica, now);
    let differing = plans.iter().filter(|(_, plan)| !plan.findings.is_empty());
    let names =
        differing.map(|(name, plan)| NameReport::of(name, plan, replica, sync.references(), now));
    let mut names: Vec<_> = names.collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Verified {
        objects: sync.desired().objects(),
        rows: replica.0.len(),
        managed: sync.is_managed(),
        differences: sync.differences(),
        absent: Absent::of(&sync.absence(now)),
        other_stores: sync.other_stores(replica),
        names,
    })
}

/// Asks the database something, and follows what changes meanwhile.
async fn ask(
    client: &mut Client<Northbound>,
    sync: &mut Reconciler,
    question: Vec<Operation>,
) -> Result<Outcome, VerifyError> {
    let asked = client.transact(question);
    let asked = asked.ok_or(VerifyError::Lost(None))?;
    loop {
        match (client.next().await, client.replica()) {
            (Event::Changed(changes), Some(replica)) => sync.database_changed(replica, changes),
            (Event::Ended { id, outcome }, _) if id == asked => match outcome {
                Outcome::Unknown(error) => return Err(VerifyError::Probe(error)),
                outcome => return Ok(outcome),
            },
            (Event::Down { error, .. }, _) => return Err(VerifyError::Lost(Some(error))),
            (Event::Responsive(_), _) => {}
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
            sync.store_changed(&event, Instant::now().into_std());
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
                Event::Changed(_) | Event::Ended { .. } | Event::Responsive(_) => {}
                Event::Down { remote, error, .. } => reason = Some(format!("{remote}: {error}")),
            }
        }
    };
    match timeout_at(until, reading).await {
        Ok(()) => Ok(()),
        Err(_) => Err(VerifyError::Database(deadline, reason)),
    }
}

//! The requests of a session that wait for their replies, and why they wait no longer: no IO.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    error::Error,
    transport::{MessageError, Reply, TransportError},
};

/// Who waits for which reply, until the session ends.
pub(super) struct Waiting(Mutex<Result<Table, End>>);

type Table = HashMap<u64, oneshot::Sender<RawResult>>;

pub(super) type RawResult = Result<Box<RawValue>, Box<RawValue>>;

/// Why a session ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Lost(Arc<TransportError>),
    /// Notifications came faster than they were taken.
    Lagged,
}

impl Waiting {
    /// Nobody waits yet.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Ok(Table::new())))
    }

    fn table(&self) -> MutexGuard<'_, Result<Table, End>> {
        // Each change is a single one: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody waits for the reply to this request.
    ///
    /// # Errors
    /// The session has ended.
    pub(super) fn add(&self, id: u64) -> Result<oneshot::Receiver<RawResult>, End> {
        let (sender, receiver) = oneshot::channel();
        match self.table().as_mut() {
            Ok(table) => table.insert(id, sender),
            Err(end) => return Err(end.clone()),
        };
        Ok(receiver)
    }

    pub(super) fn replied(&self, Reply { id, result }: Reply) -> Result<(), End> {
        let waits = match self.table().as_mut() {
            Ok(table) => table.remove(&id),
            Err(end) => return Err(end.clone()),
        };
        let waits =
            waits.ok_or_else(|| TransportError::from(MessageError::NoRequest(id.to_string())))?;
        // Who waited may have given up.
        let _gone = waits.send(result);
        Ok(())
    }

    /// All who wait shall know that the session ended.
    pub(super) fn end(&self, end: End) {
        let mut table = self.table();
        if table.is_ok() {
            *table = Err(end);
        }
    }

    /// Why the session ended.
    pub(super) fn why(&self) -> Error {
        match &*self.table() {
            Err(end) => end.clone().into(),
            // The task that reads was ended from outside.
            Ok(_) => End::from(TransportError::Closed).into(),
        }
    }
}

impl From<TransportError> for End {
    fn from(error: TransportError) -> Self {
        Self::Lost(Arc::new(error))
    }
}

impl From<End> for Error {
    fn from(end: End) -> Self {
        match end {
            End::Lost(cause) => Self::Lost(cause),
            End::Lagged => Self::Lagged,
        }
    }
}

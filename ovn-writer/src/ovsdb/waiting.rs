//! The requests of a session that wait for their replies, and why they wait no longer: no IO.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::{
    error::Error,
    transport::{MessageError, Reply, Text, TransportError},
};

/// Who waits for which reply, until the session ends.
pub(super) struct Waiting(Mutex<Result<Table, End>>);

type Table = HashMap<u64, oneshot::Sender<RawResult>>;

pub(super) type RawResult = Result<Text, Text>;

/// Why a session ended.
pub(super) type End = Arc<TransportError>;

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
    pub(super) fn add(&self, id: u64) -> Result<oneshot::Receiver<RawResult>, Error> {
        let (sender, receiver) = oneshot::channel();
        match self.table().as_mut() {
            Ok(table) => table.insert(id, sender),
            Err(end) => return Err(Error::Lost(end.clone())),
        };
        Ok(receiver)
    }

    pub(super) fn replied(&self, Reply { id, result }: Reply) -> Result<(), End> {
        let waits = match self.table().as_mut() {
            Ok(table) => table.remove(&id),
            Err(end) => return Err(end.clone()),
        };
        let no_request = || TransportError::from(MessageError::NoRequest(id.to_string()));
        let waits = waits.ok_or_else(no_request)?;
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
        Error::Lost(match &*self.table() {
            Err(end) => end.clone(),
            // The task that reads was ended from outside.
            Ok(_) => TransportError::Closed.into(),
        })
    }
}

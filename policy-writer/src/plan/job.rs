//! A job: the writes for one `DNSResolver`, one after the other.

use std::time::Instant;

use proto::api::DnsResolver;
use runtime::store::{ObjectKey, Precondition, StoreError};

use super::{Object, Observed, Output};

/// The writes for one `DNSResolver`.
#[derive(Clone, Debug)]
pub struct Job {
    pub key: ObjectKey,
    pub operations: Vec<Operation>,
    /// The object with its new status.
    pub status: Option<DnsResolver>,
    /// When the oldest change in it came.
    pub since: Option<Instant>,
}

/// One write.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Replaces the version in its metadata, or creates the object if there is none.
    Put(Box<Object>),
    Delete(Output, Precondition),
}

impl Operation {
    /// The kind of its object.
    pub fn output(&self) -> Output {
        match self {
            Self::Put(object) => object.body.output(),
            Self::Delete(output, _) => *output,
        }
    }
}

/// The outcome of one write.
#[derive(Clone, Debug)]
pub enum OperationResult {
    /// It is stored like this.
    Written(Observed),
    /// This job deleted it.
    Deleted,
    /// There is no such object now.
    Gone,
    /// Another program has changed it, and it is stored like this.
    Changed(Observed),
    /// Another program has changed it, so it was not deleted.
    Stale,
    Failed(StoreError),
}

/// The outcome of a job.
#[derive(Clone, Debug)]
pub struct Done {
    pub key: ObjectKey,
    pub results: Vec<(Output, OperationResult)>,
    /// Whether nothing of the job was left out.
    pub is_complete: bool,
    pub status: Option<Result<DnsResolver, StoreError>>,
    /// As in the job.
    pub since: Option<Instant>,
}

impl Done {
    /// Whether every write was done.
    pub fn is_success(&self) -> bool {
        use OperationResult::{Deleted, Gone, Written};
        let is_done = |it: &OperationResult| matches!(it, Written(_) | Deleted | Gone);
        self.is_complete && self.results.iter().all(|(_, result)| is_done(result))
    }
}

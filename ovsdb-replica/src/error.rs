//! The errors of a session, and the caller's next step.

use std::{fmt, time::Duration};

use serde::Deserialize;

use super::{
    replica_error::ReplicaError,
    schema::SchemaError,
    transport::{FramingError, TransportError},
};

/// The caller's next step after an error, a refusal or an unknown outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NextStep {
    /// Compute the transaction again from the replica, and send it: its preconditions changed, or the server lacked
    /// resources.
    Retry,
    /// Connect again. [`Client::next`](crate::Client::next) does so by itself.
    Reconnect,
    /// Tell an administrator: the server, its schema, a file or the transaction must change. The client still retries
    /// the connection, at growing intervals.
    Refuse,
    /// Call [`Client::restart`](crate::Client::restart), and check the replica of the next session for the effect of
    /// the transaction.
    UnknownOutcome,
}

/// The wait after a message that is too long.
const TOO_LONG_DELAY: Duration = Duration::from_secs(30);

/// The server's error for a request.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ServerError {
    /// The kind of error, such as `constraint violation` (RFC 7047 section 3.1).
    pub error: String,
    /// The details, for people.
    pub details: Option<String>,
}

impl ServerError {
    /// Parses an `error` member, which is a text or an object.
    pub(super) fn parse(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_else(|_| Self {
            error: serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()),
            details: None,
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        match &self.details {
            Some(details) => write!(f, ": {details}"),
            None => Ok(()),
        }
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection was made.
    #[error("cannot connect: {0}")]
    Connect(TransportError),
    /// The connection ended.
    #[error("the connection is lost: {0}")]
    Lost(#[from] TransportError),
    /// The server did not answer in time.
    #[error("no answer to {method} within {deadline:?}")]
    Deadline {
        /// The request.
        method: &'static str,
        /// The time-out.
        deadline: Duration,
    },
    /// The server refused a request that every server must support.
    #[error("the server refuses {method}: {reason}")]
    Refused {
        /// The request.
        method: &'static str,
        /// The server's error.
        reason: ServerError,
    },
    /// A reply or a notification does not follow RFC 7047 or ovsdb-server(7).
    #[error("{what} cannot be read: {source}")]
    Malformed {
        /// The message.
        what: &'static str,
        /// The fault.
        source: serde_json::Error,
    },
    /// A notification without a subscription.
    #[error("an unexpected notification: {0}")]
    Unexpected(String),
    /// The server is older than Open vSwitch 2.17 and lacks needed features. It must be upgraded.
    #[error(
        "the server is older than Open vSwitch 2.17: {}",
        match found {
            Some(version) => format!("its _Server schema has the version {version}, and 1.2.0 is needed"),
            None => "it has no _Server database".to_owned(),
        }
    )]
    TooOld {
        /// The version of its `_Server` schema, if it has one.
        found: Option<String>,
    },
    /// The database does not fit the client's tables.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An update contradicts earlier data.
    #[error("the updates contradict one another: {0}")]
    Inconsistent(#[from] ReplicaError),
    /// The server ended the monitor, as it does when the database is converted or removed.
    #[error("the server canceled the monitor of {0}")]
    Canceled(String),
    /// The server does not serve the database, or not at the moment.
    #[error("the server {}", if *.served { "is not connected to its cluster" } else { "does not serve the database" })]
    NotServed {
        /// Whether it knows the database at all.
        served: bool,
    },
    /// The server is not the leader of its cluster, and only the leader is accepted.
    #[error("the server does not lead its cluster")]
    NotLeader,
    /// The server is behind a state of the cluster that was already seen.
    #[error("the server is behind: it is at {index} of its cluster's log, and {seen} was seen")]
    Stale {
        /// The server's position.
        index: i64,
        /// The highest position seen.
        seen: i64,
    },
    /// A parser thread failed.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

impl Error {
    /// [`NextStep::Reconnect`] if another attempt may succeed without any change, [`NextStep::Refuse`] otherwise.
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::Connect(TransportError::Tls(_))
            | Self::Refused { .. }
            | Self::TooOld { .. }
            | Self::Schema(_) => NextStep::Refuse,
            _ => NextStep::Reconnect,
        }
    }

    /// The minimum wait before the next attempt. Reading a message that is too long costs the server much work, and
    /// would fail again.
    pub(super) fn least_delay(&self) -> Duration {
        match self {
            Self::Connect(TransportError::Framing(FramingError::TooLong { .. }))
            | Self::Lost(TransportError::Framing(FramingError::TooLong { .. })) => TOO_LONG_DELAY,
            _ => Duration::ZERO,
        }
    }

    /// Whether the replica is still valid, so that only later changes need be read. It is not if the server
    /// contradicted itself, an update may have been missed, or the database was replaced.
    pub(super) fn leaves_the_replica_intact(&self) -> bool {
        matches!(
            self,
            Self::Connect(_)
                | Self::Lost(_)
                | Self::Deadline { .. }
                | Self::NotServed { .. }
                | Self::NotLeader
                | Self::Stale { .. }
        )
    }
}

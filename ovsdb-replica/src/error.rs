//! Why a session ended, or never came to be, and what the caller does next.

use std::{fmt, time::Duration};

use serde::Deserialize;

use super::{
    replica_error::ReplicaError,
    schema::SchemaError,
    transport::{FramingError, TransportError},
};

/// What the caller does next about an error, a refusal or an unknown outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NextStep {
    /// Work the transaction out anew from the replica, and send it: what it relied on has changed, or the server lacked resources.
    Retry,
    /// Connect again. [`Client::next`](crate::Client::next) does so by itself.
    Reconnect,
    /// Tell an administrator: the server, its schema, a file or the transaction must change. The client still tries to connect
    /// again, at growing intervals.
    Refuse,
    /// Call [`Client::restart`](crate::Client::restart), and see in the replica of the next session what became of the transaction.
    UnknownOutcome,
}

/// How long to wait after a message that is too long.
const TOO_LONG_DELAY: Duration = Duration::from_secs(30);

/// What the server says of a request that it does not carry out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ServerError {
    /// The kind of error, such as `constraint violation` (RFC 7047 section 3.1).
    pub error: String,
    /// What exactly is wrong, for people.
    pub details: Option<String>,
}

impl ServerError {
    /// Reads an `error` member, which is a text or an object.
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

/// Why there is no session, or no longer.
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
        /// What was asked.
        method: &'static str,
        /// How long it was given.
        deadline: Duration,
    },
    /// The server refuses a request that every server must grant.
    #[error("the server refuses {method}: {reason}")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// The server's words.
        reason: ServerError,
    },
    /// An answer or a notification is not what RFC 7047 or ovsdb-server(7) says.
    #[error("{what} cannot be read: {source}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A notification that was not asked for.
    #[error("an unexpected notification: {0}")]
    Unexpected(String),
    /// The server is older than Open vSwitch 2.17, and does not have what the client needs. Refuse it: it must be upgraded.
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
    /// The database is not one that the client can work with.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An update does not fit what was read before.
    #[error("the updates contradict one another: {0}")]
    Inconsistent(#[from] ReplicaError),
    /// The server ended the monitor, as it does when the database is converted or removed.
    #[error("the server canceled the monitor of {0}")]
    Canceled(String),
    /// The server does not serve the database, or not now.
    #[error("the server {}", if *.served { "is not connected to its cluster" } else { "does not serve the database" })]
    NotServed {
        /// Whether it knows the database at all.
        served: bool,
    },
    /// The server does not lead its cluster, and only the leader will do.
    #[error("the server does not lead its cluster")]
    NotLeader,
    /// The server is behind what was seen before of the same cluster.
    #[error("the server is behind: it is at {index} of its cluster's log, and {seen} was seen")]
    Stale {
        /// How far the server is.
        index: i64,
        /// How far some server was.
        seen: i64,
    },
    /// A thread that parses could not be had.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

impl Error {
    /// [`NextStep::Reconnect`] if another attempt may succeed with everything as it is, [`NextStep::Refuse`] otherwise.
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::Connect(TransportError::Tls(_))
            | Self::Refused { .. }
            | Self::TooOld { .. }
            | Self::Schema(_) => NextStep::Refuse,
            _ => NextStep::Reconnect,
        }
    }

    /// How long to wait at least before the next attempt. For a message that is too long the server works long and in vain, and so
    /// it will again.
    pub(super) fn least_delay(&self) -> Duration {
        match self {
            Self::Connect(TransportError::Framing(FramingError::TooLong { .. }))
            | Self::Lost(TransportError::Framing(FramingError::TooLong { .. })) => TOO_LONG_DELAY,
            _ => Duration::ZERO,
        }
    }

    /// Whether what was replicated before is right, so that only what happened since need be read. It is not when the server
    /// contradicts itself, when something may have been missed, and when the database is another one afterwards.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_server_are_kept_in_every_form() {
        let words = |json| ServerError::parse(json).to_string();
        assert_eq!(words(r#""unknown method""#), "unknown method");
        assert_eq!(
            words(r#"{"error":"syntax error","details":"no","syntax":"x"}"#),
            "syntax error: no"
        );
        assert_eq!(words(r#"{"error":"timed out"}"#), "timed out");
        assert_eq!(words("17"), "17");
    }

    #[test]
    fn a_server_is_not_made_to_write_what_is_too_long_again_and_again() {
        let too_long = FramingError::TooLong {
            length: 2,
            is_whole: true,
            limit: 1,
        };
        let error = Error::Lost(too_long.into());
        assert_eq!(error.least_delay(), TOO_LONG_DELAY);
        assert_eq!(Error::NotLeader.least_delay(), Duration::ZERO);
    }

    #[test]
    fn an_error_says_whether_another_attempt_may_succeed() {
        let step = |error: Error| error.next_step();
        assert_eq!(step(Error::TooOld { found: None }), NextStep::Refuse);
        assert_eq!(step(Error::NotLeader), NextStep::Reconnect);
        assert_eq!(step(TransportError::Closed.into()), NextStep::Reconnect);
        let tls = crate::transport::TlsError::NotConfigured;
        assert_eq!(step(Error::Connect(tls.into())), NextStep::Refuse);
    }
}

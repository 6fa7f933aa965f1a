//! The `_Server` database (ovsdb-server(5)): the state of the server's databases, and the decision to use the server.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{error::Error, replica::Replica};

/// The name of the database.
pub(super) const SERVER_DATABASE: &str = "_Server";

/// The version of its schema since Open vSwitch 2.16. Nothing in the protocol tells 2.16 from 2.17.
const LEAST_VERSION: [u32; 3] = [1, 2, 0];

/// Whether a server with this version of its `_Server` schema is new enough.
pub(super) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse);
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0_u32);
    [next(), next(), next()] >= LEAST_VERSION
}

/// How long the client skips servers that are behind. A server that is connected to its cluster catches up much faster.
/// If all servers are still behind after this time, the database itself went back, as after a restore.
const STALE_DEADLINE: Duration = Duration::from_secs(10);

crate::table! {
    /// A row of the table `Database`. The column `schema` is left out: it is long, and a conversion cancels the
    /// monitors anyway.
    pub(super) struct ServedDatabase in "Database", key name: String {
        /// The name of the database.
        pub(super) name: String,
        /// `clustered` if it belongs to a cluster.
        pub(super) model: String,
        /// Whether the server is connected to its cluster; always true for a standalone one.
        pub(super) connected: bool,
        /// Whether the server leads its cluster; always true for a standalone one.
        pub(super) leader: bool,
        /// The cluster; only for a clustered database.
        pub(super) cid: Option<Uuid>,
        /// The server's position in the log of the cluster; only for a clustered database.
        pub(super) index: Option<i64>,
    }
}

/// The highest known position of a cluster, which a server must have reached.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Progress {
    cluster: Option<Uuid>,
    index: i64,
    /// Since when every checked server was behind.
    behind_since: Option<Instant>,
}

impl Progress {
    /// Checks whether the server can be used, and records its position.
    ///
    /// # Errors
    /// [`Error::NotServed`], [`Error::NotLeader`] and [`Error::Stale`].
    pub(super) fn check(
        &mut self,
        server: &Replica<ServedDatabase>,
        database: &str,
        leader_only: bool,
        now: Instant,
    ) -> Result<(), Error> {
        let Some((_, row)) = server.with_key(&database.to_owned()).next() else {
            return Err(Error::NotServed { served: false });
        };
        if !row.connected {
            return Err(Error::NotServed { served: true });
        }
        if row.model != "clustered" {
            *self = Self::default();
            return Ok(());
        }
        if leader_only && !row.leader {
            return Err(Error::NotLeader);
        }
        let Some(index) = row.index else {
            return Ok(());
        };
        if row.cid == self.cluster && index < self.index {
            let since = *self.behind_since.get_or_insert(now);
            if now.saturating_duration_since(since) < STALE_DEADLINE {
                let seen = self.index;
                return Err(Error::Stale { index, seen });
            }
            tracing::warn!(
                index,
                seen = self.index,
                "the whole cluster went back to an older state, as after a restore: the client continues with that state"
            );
        } else if row.cid != self.cluster && self.cluster.is_some() {
            tracing::warn!(cluster = ?row.cid, before = ?self.cluster, "the database belongs to another cluster now");
        }
        *self = Self {
            cluster: row.cid,
            index,
            behind_since: None,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;

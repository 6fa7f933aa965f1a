//! The `_Server` database (ovsdb-server(5)): what a server says of the databases that it serves, and whether it will do.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{error::Error, replica::Replica};

/// The name of the database.
pub(super) const SERVER_DATABASE: &str = "_Server";

/// The version of its schema since Open vSwitch 2.16. Nothing in the protocol tells 2.16 from 2.17.
const LEAST_VERSION: [u32; 3] = [1, 2, 0];

/// Whether a server is new enough whose `_Server` schema has this version.
pub(super) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse);
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0_u32);
    [next(), next(), next()] >= LEAST_VERSION
}

/// For how long servers are passed over because they are behind. A server that is in touch with its cluster catches up in far
/// less time; if after this all of them are still behind, the database itself went back, as when it is restored from a backup.
const STALE_DEADLINE: Duration = Duration::from_secs(10);

crate::table! {
    /// A row of the table `Database`. Not its column `schema`: it is long, and a conversion cancels the monitors anyway.
    pub(super) struct ServedDatabase in "Database", key name: String {
        /// The name of the database.
        pub(super) name: String,
        /// `clustered` if it belongs to a cluster.
        pub(super) model: String,
        /// Whether the server is in touch with its cluster; always true of a standalone one.
        pub(super) connected: bool,
        /// Whether the server leads its cluster; always true of a standalone one.
        pub(super) leader: bool,
        /// Of a clustered one: its cluster.
        pub(super) cid: Option<Uuid>,
        /// Of a clustered one: the server.
        pub(super) sid: Option<Uuid>,
        /// Of a clustered one: up to where in the log of the cluster the server has come.
        pub(super) index: Option<i64>,
    }
}

/// What servers of a cluster have said so far: how far a server must be to be believed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Progress {
    cluster: Option<Uuid>,
    index: i64,
    /// Since when every server that was looked at was behind.
    behind_since: Option<Instant>,
}

impl Progress {
    /// Whether the server can be worked with; takes over how far it is.
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
                "the whole cluster went back, as after a restore: its state is taken as it is"
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

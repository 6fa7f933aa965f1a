//! Leader election: at most one replica leads, and a new leader follows soon.
//!
//! - In a cluster the leader holds a Lease of `coordination.k8s.io/v1`. Others respect it for 15 s from its last
//!   renewal. The leader renews it every 2 s by compare-and-swap, and stops to lead after 10 s without a renewal. A
//!   killed leader is replaced within 17 s and the time of the requests. A leader that ends in order clears the holder,
//!   so it is replaced at once. Of the collectors, one that receives fewer DNS servers hands the lead over
//!   (`coverage`).
//! - With a folder the leader holds `flock` on `PATH/.NAME-leader` for life, where NAME is the program's. The lock ends with
//!   its process.

mod coverage;
mod folder;
mod lease;

use std::{env, time::Duration};

use metrics::gauge;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::info;
use uuid::Uuid;

use self::{folder::Folder, lease::Candidate};
use crate::OpenStore;

crate::metrics! {
    /// The metrics of the election.
    pub const METRICS;

    gauge LEADING = "egress_replica_leading" "1 while this replica is the leader. Over all collectors the sum is 1, and likewise over ovn-writers with `--leader-elect`; other ovn-writers lack this metric";
}

/// How long others wait after they saw the last renewal of a Lease.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// How long a replica leads after a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The interval at which the leader renews a Lease and other replicas read it.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Contends for the lead until it is told to end.
pub struct Leadership {
    contest: Contest,
    state: watch::Sender<LeadState>,
}

/// How much longer a replica waits that receives fewer DNS servers than another: two turns of the other.
const YIELD: Duration = Duration::from_secs(5);

/// Returns the number of DNS servers that this replica receives.
pub type Heard = Box<dyn Fn() -> usize + Send + Sync>;

enum Contest {
    Folder(Folder),
    Lease(Box<Candidate>),
}

/// Whether this process leads.
#[derive(Clone, Debug)]
pub struct Leader(watch::Receiver<LeadState>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LeadState {
    Following,
    /// Until this time, or for life.
    Leading(Option<Instant>),
}

impl LeadState {
    fn is_leading(self) -> bool {
        match self {
            Self::Following => false,
            Self::Leading(until) => until.is_none_or(|until| Instant::now() < until),
        }
    }
}

impl Leadership {
    /// For the programs that share a store: the Lease of this name in a namespace, or the folder's lock.
    pub fn of(store: &OpenStore, namespace: &str, name: &str) -> Self {
        Self::new(match store {
            OpenStore::Dir(store) => {
                let file = format!(".{name}-leader");
                let path = store.path().join(file);
                Contest::Folder(Folder { path, heard: None })
            }
            OpenStore::Kube(store) => {
                let cluster = store.cluster();
                let candidate = Candidate::new(cluster, namespace, name, identity());
                Contest::Lease(Box::new(candidate))
            }
        })
    }

    fn new(contest: Contest) -> Self {
        Self {
            contest,
            state: watch::channel(LeadState::Following).0,
        }
    }

    /// Hands the lead over to a replica that receives more DNS servers. With a folder, a replica that receives none lets others
    /// have the lead first.
    #[must_use]
    pub fn compare(mut self, heard: Heard) -> Self {
        match &mut self.contest {
            Contest::Folder(folder) => folder.heard = Some(heard),
            Contest::Lease(candidate) => candidate.compare(heard),
        }
        self
    }

    /// Whether this process leads, now and later; never before [`Leadership::run`] and after it.
    pub fn leader(&self) -> Leader {
        Leader(self.state.subscribe())
    }

    /// Contends until the token is cancelled. Then releases the lead, which may take a second.
    ///
    /// # Errors
    /// None: errors are logged and retried.
    pub async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        let holder = Holder { state: self.state };
        match self.contest {
            Contest::Folder(folder) => {
                // Dropping it releases the lock.
                token
                    .run_until_cancelled_owned(folder.contend(&holder))
                    .await;
            }
            Contest::Lease(mut candidate) => {
                token
                    .run_until_cancelled_owned(candidate.contend(&holder))
                    .await;
                // This process must stop before others lead.
                holder.follow("this process ends");
                candidate.release().await;
            }
        }
        Ok(())
    }
}

impl Leader {
    /// Whether this process leads now. The lead may end at any time, but with a Lease no other replica leads for five
    /// seconds more.
    pub fn is_leading(&self) -> bool {
        self.0.borrow().is_leading()
    }

    /// Returns when this process has begun or ceased to lead since the last call. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The election has ended: this process never leads again.
            std::future::pending::<()>().await;
        }
    }

    /// The leader of a process without rivals.
    pub fn sole() -> Self {
        Self(watch::channel(LeadState::Leading(None)).1)
    }
}

/// Publishes the leader, and at its end that this process does not lead.
struct Holder {
    state: watch::Sender<LeadState>,
}

impl Holder {
    /// Records that this process leads, or still does.
    fn lead(&self, until: Option<Instant>) {
        let has_begun = self.state.send_if_modified(|state| {
            // A lead that had expired, as after a suspend of the process, begins anew, so readers must be notified.
            let is_new = !state.is_leading();
            *state = LeadState::Leading(until);
            is_new
        });
        if has_begun {
            info!("leading");
        }
        gauge!(LEADING).set(1.0);
    }

    fn follow(&self, reason: &str) {
        let has_ceased = self.state.send_if_modified(|state| {
            let is_new = *state != LeadState::Following;
            *state = LeadState::Following;
            is_new
        });
        if has_ceased {
            info!("no longer leading: {reason}");
        }
        gauge!(LEADING).set(0.0);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.follow("this process ends");
    }
}

/// The pod's name (`POD_NAME`) or the host's, with a suffix that differs between processes.
fn identity() -> String {
    let pod = env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let host = pod.unwrap_or_else(|| {
        let system = rustix::system::uname();
        system.nodename().to_string_lossy().into_owned()
    });
    format!("{host}_{:.8}", Uuid::new_v4().simple().to_string())
}

#[cfg(test)]
mod tests;

//! Which replica leads: one at most, and soon one.
//!
//! - In a cluster the leader holds a Lease of `coordination.k8s.io/v1`: for 10 s from its last renewal as others see it,
//!   renewed every 2 s by compare-and-swap. Who could not renew it for 7 s does not lead. A leader that is killed is
//!   followed within 10 s and what the requests take, one that ends in order at once, as it clears the holder.
//! - With a folder the leader holds `flock` on `PATH/.leader` (the collector) or `PATH/.NAME-leader` (any other program)
//!   for life, so the end of its process ends it.

mod deference;
mod folder;
mod lease;

use std::{env, time::Duration};

use metrics::gauge;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::info;
use uuid::Uuid;

pub use self::deference::Others;
use self::{deference::Deference, folder::Folder, lease::Candidate};
use crate::OpenStore;

crate::metrics! {
    /// The metrics of the lead.
    pub const METRICS;

    gauge LEADING = "replica_leading" "1 while this process leads its replicas";
}

/// How long others wait after they saw the last renewal of a Lease.
pub const LEASE_DURATION: Duration = Duration::from_secs(10);

/// How long who renewed a Lease leads.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(7);

/// How often a Lease is renewed, or looked at by who does not hold it.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Contends for the lead until it is told to end.
pub struct Leadership {
    contest: Contest,
    deference: Deference,
    standing: watch::Sender<Standing>,
    is_shown: bool,
}

enum Contest {
    Folder(Folder),
    Lease(Box<Candidate>),
}

/// Whether this process leads.
#[derive(Clone, Debug)]
pub struct Leader(watch::Receiver<Standing>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Following,
    /// Until then, or for life.
    Leading(Option<Instant>),
}

impl Standing {
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
            OpenStore::Dir(store) => Contest::Folder(Folder::new(store.path(), file(name))),
            OpenStore::Kube(store) => Contest::Lease(Box::new(Candidate::new(
                store.cluster().clone(),
                namespace,
                name,
                identity(),
            ))),
        })
    }

    fn new(contest: Contest) -> Self {
        Self {
            contest,
            deference: Deference::none(),
            standing: watch::channel(Standing::Following).0,
            is_shown: true,
        }
    }

    /// It is about something else than who leads the program's replicas, which the log and the metric tell.
    #[must_use]
    pub fn unseen(mut self) -> Self {
        self.is_shown = false;
        self
    }

    /// Leaves the lead to others while they would lead better.
    #[must_use]
    pub fn beside(mut self, others: watch::Receiver<Others>) -> Self {
        self.deference = Deference::new(others);
        self
    }

    /// Whether this process leads, now and later; not before [`Leadership::run`], and not after it.
    pub fn leader(&self) -> Leader {
        Leader(self.standing.subscribe())
    }

    /// Contends until the token is cancelled, and then lets go of the lead, which may take a second.
    ///
    /// # Errors
    /// None: what goes wrong is logged and tried again.
    pub async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        let holder = Holder {
            standing: self.standing,
            is_shown: self.is_shown,
        };
        match self.contest {
            Contest::Folder(folder) => {
                // What it holds is dropped with it.
                token
                    .run_until_cancelled_owned(folder.contend(&holder, self.deference))
                    .await;
            }
            Contest::Lease(mut candidate) => {
                token
                    .run_until_cancelled_owned(candidate.contend(&holder, self.deference))
                    .await;
                // The others must not lead before this one has stopped.
                holder.follow("this process ends");
                candidate.release().await;
            }
        }
        Ok(())
    }
}

impl Leader {
    /// Whether this process leads now. It may end at any time, but with a Lease nobody else leads for three seconds
    /// more.
    pub fn is_leading(&self) -> bool {
        self.0.borrow().is_leading()
    }

    /// Returns when this process has begun or ceased to lead since the last call. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody contends any more: it follows for good.
            std::future::pending::<()>().await;
        }
    }

    /// Of a process that has no rivals.
    pub fn sole() -> Self {
        Self(watch::channel(Standing::Leading(None)).1)
    }
}

/// Says who leads, and at its end that this process does not.
struct Holder {
    standing: watch::Sender<Standing>,
    is_shown: bool,
}

impl Holder {
    /// Leads, or still does.
    fn lead(&self, until: Option<Instant>) {
        let has_begun = self.standing.send_if_modified(|standing| {
            // One that was over, as after a sleep of the process, begins anew: who looked meanwhile waits to be told.
            let is_new = !standing.is_leading();
            *standing = Standing::Leading(until);
            is_new
        });
        if self.is_shown {
            if has_begun {
                info!("leading");
            }
            gauge!(LEADING).set(1.0);
        }
    }

    fn follow(&self, reason: &str) {
        let has_ceased = self.standing.send_if_modified(|standing| {
            let is_new = *standing != Standing::Following;
            *standing = Standing::Following;
            is_new
        });
        if self.is_shown {
            if has_ceased {
                info!("not leading any more: {reason}");
            }
            gauge!(LEADING).set(0.0);
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.follow("this process ends");
    }
}

/// The file that the program of this name locks.
fn file(name: &str) -> String {
    match name {
        // It was there first.
        "collector" => ".leader".to_owned(),
        name => format!(".{name}-leader"),
    }
}

/// [`host`], with something that tells this process from an earlier one there.
fn identity() -> String {
    let process = Uuid::new_v4().simple().to_string();
    let process: String = process.chars().take(8).collect();
    format!("{}_{process}", host())
}

/// The pod's name (`POD_NAME`) or the host's.
pub(crate) fn host() -> String {
    let pod = env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    pod.unwrap_or_else(|| {
        let system = rustix::system::uname();
        system.nodename().to_string_lossy().into_owned()
    })
}

#[cfg(test)]
mod tests;

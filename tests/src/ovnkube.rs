//! ovn-kubernetes, as far as address sets of DNS names see it: what its programs were measured to do to a real northbound database.

mod agenda;
mod by_hand;
mod controller;
mod files;
mod own;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};

use self::agenda::Agenda;
pub use self::{controller::COMMENT, own::OwnResolver};
use crate::{store::Store, wait::eventually};

/// `ovnkube-controller`, a second writer of the address sets. It ends when this is dropped.
///
/// - On any difference of a status, even of one time, it makes the whole `addresses` column of both sets equal to that status, one
///   update a family. If a row is equal already it sends nothing. If there is none it fails and forgets. It repairs nothing.
/// - Of an EgressFirewall it makes the sets, 7 ms later the ACLs, and 5 ms later it deletes the sets that no ACL refers to.
/// - When it starts with its flag, that clean-up comes 5 ms after the sets, and the ACLs 10 ms after that: they refer to sets that
///   are not there. It never learns that it deleted a set: when the name of an EgressFirewall comes back it makes the ACL alone.
///
/// All its transactions bear the comment [`COMMENT`].
#[derive(Debug)]
pub struct OvnKube {
    counts: Arc<Counts>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What it follows, and when it hears of it.
#[derive(Clone, Debug)]
pub enum Follow {
    /// EgressFirewalls alone: it runs without `--enable-dns-name-resolver`, and its sets are under the names as they were written.
    Never,
    /// EgressFirewalls, and statuses so long after they were written.
    Late(Duration),
    /// The statuses alone, so long after they were written, whatever sets there are.
    StatusesOnly(Duration),
    /// EgressFirewalls, and statuses some time before or after the ovn-writer, which follows the store `published`: the objects are
    /// copied there. In half of the cases it is up to 10 ms.
    Randomly {
        /// What the times follow from.
        seed: u64,
        /// The longest one.
        apart: Duration,
        /// The store of the ovn-writer.
        published: Store,
    },
}

impl Follow {
    fn has_rules(&self) -> bool {
        !matches!(self, Self::StatusesOnly(_))
    }

    fn has_objects(&self) -> bool {
        !matches!(self, Self::Never)
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// How often it looked and had nothing left to do.
    idle: AtomicUsize,
    statuses: AtomicUsize,
    writes: AtomicUsize,
    failed: AtomicUsize,
    /// In milliseconds.
    latest: AtomicU64,
    ends: AtomicBool,
}

impl OvnKube {
    /// Starts it on the databases in these folders, in each of which it does the same.
    pub fn start(folders: &[&Path], store: &Store, follow: Follow) -> Self {
        let counts = Arc::new(Counts::default());
        let agenda = Agenda::new(store, follow, folders);
        let shared = Arc::clone(&counts);
        let thread = thread::spawn(move || agenda.run(&shared));
        Self {
            counts,
            thread: Some(thread),
        }
    }

    /// Waits until it has done all that follows from what was written to the store so far.
    pub async fn settled(&self) {
        let idle = || self.counts.idle.load(Ordering::Relaxed);
        // The second look began after this call.
        let wanted = idle() + 2;
        eventually("ovn-kubernetes has nothing left to do", async || {
            let done = idle() >= wanted;
            done.then_some(()).ok_or_else(|| "it has".to_owned())
        })
        .await;
    }

    /// Waits until it has taken so many statuses over.
    pub async fn took(&self, statuses: usize) {
        eventually("ovn-kubernetes takes statuses over", async || {
            let taken = self.statuses();
            (taken >= statuses)
                .then_some(())
                .ok_or_else(|| taken.to_string())
        })
        .await;
    }

    /// How many statuses it has taken over.
    pub fn statuses(&self) -> usize {
        self.counts.statuses.load(Ordering::Relaxed)
    }

    /// How many sets it has replaced by them.
    pub fn writes(&self) -> usize {
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// The longest time by which it did something too late since this was called last: much on a machine that is too busy.
    pub fn take_latest(&self) -> Duration {
        Duration::from_millis(self.counts.latest.swap(0, Ordering::Relaxed))
    }

    /// How many it could not write, as there was no set.
    pub fn failed(&self) -> usize {
        self.counts.failed.load(Ordering::Relaxed)
    }
}

impl Drop for OvnKube {
    fn drop(&mut self) {
        self.counts.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the stand-in for ovn-kubernetes panicked");
        }
    }
}

/// The name of the set of a DNS name in the default network.
pub fn set_name(name: &str, family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family))
}

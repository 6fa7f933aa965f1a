//! A stand-in for ovn-kubernetes' writes to address sets of DNS names, as measured with its programs on a real
//! northbound database.

mod agenda;
mod by_hand;
mod controller;
mod files;
mod own_resolver;

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
pub use self::{controller::COMMENT, own_resolver::OwnResolver};
use crate::{store::Store, wait::eventually};

/// `ovnkube-controller`, a second writer of the address sets. It ends on drop.
///
/// - On any difference of a status, even of one time, it replaces the whole `addresses` column of both sets with that
///   status, in one update per family. If a row is equal already, it sends nothing. If there is no row, it fails and
///   does not retry. It repairs nothing.
/// - For an EgressFirewall it creates the sets, 7 ms later the ACLs, and 5 ms later it deletes the sets without an ACL.
/// - When it starts with its flag, that clean-up comes 5 ms after the sets, and the ACLs 10 ms after that, so they
///   refer to deleted sets. It does not notice that it deleted a set: when the name of an EgressFirewall comes back, it
///   creates only the ACL.
///
/// All its transactions have the comment [`COMMENT`].
#[derive(Debug)]
pub struct OvnKube {
    counts: Arc<Counts>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The objects that it follows, and its delay.
#[derive(Clone, Debug)]
pub enum Follow {
    /// EgressFirewalls only: it runs without `--enable-dns-name-resolver`, and its sets have the names as written.
    Never,
    /// EgressFirewalls, and statuses with this delay.
    Late(Duration),
    /// Only statuses with this delay, whichever sets exist.
    StatusesOnly(Duration),
    /// EgressFirewalls, and statuses a random time before or after the ovn-writer. The ovn-writer follows the store
    /// `published`, to which the objects are copied. In half of the cases the time is at most 10 ms.
    Randomly {
        /// The seed of the times.
        seed: u64,
        /// The longest time.
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
    /// How often it checked and had nothing left to do.
    idle: AtomicUsize,
    statuses: AtomicUsize,
    writes: AtomicUsize,
    failed: AtomicUsize,
    /// In milliseconds.
    latest: AtomicU64,
    ends: AtomicBool,
}

impl OvnKube {
    /// Starts it on the databases in these folders; it does the same in each.
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

    /// Waits until it has handled everything that was written to the store so far.
    pub async fn settled(&self) {
        let idle = || self.counts.idle.load(Ordering::Relaxed);
        // The second check began after this call.
        let wanted = idle() + 2;
        eventually("ovn-kubernetes has nothing left to do", async || {
            let done = idle() >= wanted;
            done.then_some(()).ok_or_else(|| "it has".to_owned())
        })
        .await;
    }

    /// Waits until it has handled this many statuses.
    pub async fn took(&self, statuses: usize) {
        eventually("ovn-kubernetes takes statuses over", async || {
            let taken = self.statuses();
            (taken >= statuses)
                .then_some(())
                .ok_or_else(|| taken.to_string())
        })
        .await;
    }

    /// How many statuses it has handled.
    pub fn statuses(&self) -> usize {
        self.counts.statuses.load(Ordering::Relaxed)
    }

    /// How many sets it has replaced for them.
    pub fn writes(&self) -> usize {
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// The longest delay of its actions since the last call: it is large on a busy machine.
    pub fn take_latest(&self) -> Duration {
        Duration::from_millis(self.counts.latest.swap(0, Ordering::Relaxed))
    }

    /// How many statuses it could not write, because there was no set.
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

//! Writes that are carried out together: under one lock, with the files synced side by side and each folder synced once.
//!
//! What takes long in a write is to wait for the disk, and a disk takes many orders at a time. Everything here blocks.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet, VecDeque},
    fs::File,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use rustix::{
    fs::{AtFlags, fsync, renameat, unlinkat},
    io::Errno,
};
use tokio::sync::oneshot;

use super::{
    super::{Kind, ObjectKey, StoreError, metrics},
    file::{self, Print},
    layout::temporary,
    lock::RETRY,
    objects::{Folder, at},
};

/// As many writes are carried out together at most.
const MAX_BATCH: usize = 64;

/// As many files are synced side by side at most.
const SYNCS: usize = 8;

/// A write that waits for its turn.
pub(super) struct Job {
    /// The plural of the kind, and the object.
    target: (Cow<'static, str>, ObjectKey),
    stage: Box<Stage>,
}

/// Prepares a write, or replies to it at once.
type Stage = dyn FnOnce(Result<Turn<'_>, StoreError>) -> Option<Pending> + Send;

/// What a write may use while the lock is held.
pub(super) struct Turn<'a> {
    pub(super) folder: &'a Folder,
    pub(super) root: &'a OwnedFd,
    /// The name of the file that it may write to.
    pub(super) temporary: String,
    started: Instant,
}

/// A write up to the point where it shows.
pub(super) enum Staged<T> {
    /// There is nothing to write.
    Done(T),
    /// What to do, and what the write then returns.
    Change(Box<Change>, T),
}

/// A change of one file.
pub(super) struct Change {
    pub(super) folder: OwnedFd,
    /// Of the folder and of the file.
    pub(super) path: PathBuf,
    pub(super) file_path: PathBuf,
    pub(super) key: ObjectKey,
    pub(super) name: String,
    /// The file as it was read, `None` if there was none. It may be edited at any time.
    pub(super) before: Option<Print>,
    pub(super) what: What,
}

pub(super) enum What {
    /// The temporary file takes the place of the object's.
    Put { temporary: String, content: File },
    /// The file goes.
    Remove,
}

/// A change that somebody waits for.
struct Pending {
    change: Box<Change>,
    /// Whether its file was synced, or failed to be.
    synced: bool,
    outcome: Result<(), StoreError>,
    done: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// What became of a write; closed if it panicked.
pub(super) type Reply<T> = oneshot::Receiver<Result<T, StoreError>>;

impl Job {
    /// A write that `stage` prepares. It is not begun if nobody waits for its reply any more.
    pub(super) fn new<K: Kind, T: Send + 'static>(
        operation: &'static str,
        key: ObjectKey,
        stage: impl FnOnce(&Turn<'_>) -> Result<Staged<T>, StoreError> + Send + 'static,
    ) -> (Self, Reply<T>) {
        let (sender, reply) = oneshot::channel::<Result<T, StoreError>>();
        let stage = move |turn: Result<Turn<'_>, StoreError>| {
            if sender.is_closed() {
                return None;
            }
            let finish = move |started: Instant, result: Result<T, StoreError>| {
                metrics::write::<K, T>(operation, started.elapsed(), &result);
                // Who asked may have gone meanwhile.
                let _gone = sender.send(result);
            };
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => {
                    finish(Instant::now(), Err(error));
                    return None;
                }
            };
            let started = turn.started;
            match stage(&turn) {
                Ok(Staged::Change(change, value)) => Some(Pending {
                    change,
                    synced: false,
                    outcome: Ok(()),
                    done: Box::new(move |result| finish(started, result.map(|()| value))),
                }),
                Ok(Staged::Done(value)) => {
                    finish(started, Ok(value));
                    None
                }
                Err(error) => {
                    finish(started, Err(error));
                    None
                }
            }
        };
        let job = Self {
            target: (K::plural(&()), key),
            stage: Box::new(stage),
        };
        (job, reply)
    }
}

/// The writes that wait.
#[derive(Default)]
pub(super) struct Queue(Mutex<VecDeque<Job>>);

impl Queue {
    pub(super) fn push(&self, job: Job) {
        self.jobs().push_back(job);
    }

    /// Lets other processes have the lock if there is more to write: they try it from time to time.
    pub(super) fn give_way(&self) {
        let is_empty = self.jobs().is_empty();
        if !is_empty {
            thread::sleep(2 * RETRY);
        }
    }

    /// The next writes to carry out together: not two of the same object, since the second must see what the first did.
    pub(super) fn take(&self) -> Vec<Job> {
        let mut jobs = self.jobs();
        let mut targets = HashSet::new();
        let fits = |job: &&Job| targets.insert(job.target.clone());
        let count = jobs.iter().take(MAX_BATCH).take_while(fits).count();
        jobs.drain(..count).collect()
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder {
    /// Carries the writes out, and replies to each.
    pub(super) fn carry_out(&self, jobs: Vec<Job>) {
        let (root, lock) = match self.lock() {
            Ok(locked) => locked,
            Err(error) => {
                for job in jobs {
                    (job.stage)(Err(error.clone()));
                }
                return;
            }
        };
        let started = Instant::now();
        let stage = |(slot, job): (usize, Job)| {
            (job.stage)(Ok(Turn {
                folder: self,
                root: &root,
                temporary: temporary(slot),
                started,
            }))
        };
        let mut pending: Vec<Pending> = jobs.into_iter().enumerate().filter_map(stage).collect();
        sync_files(&mut pending);
        for pending in &mut pending {
            if pending.outcome.is_ok() {
                pending.outcome = pending.change.show();
            }
            if pending.outcome.is_err() {
                pending.change.clean_up();
            }
        }
        sync_folders(&mut pending);
        for Pending {
            change, outcome, ..
        } in &pending
        {
            if let (Ok(()), What::Put { .. }) = (outcome, &change.what) {
                self.populated().insert(change.path.clone());
            }
        }
        drop(lock);
        for Pending { outcome, done, .. } in pending {
            done(outcome);
        }
    }
}

impl Change {
    fn failed(&self, error: impl std::fmt::Display) -> StoreError {
        StoreError::unavailable(at(&self.file_path, error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        match &self.what {
            What::Put { content, .. } => content.sync_all().map_err(|error| self.failed(error)),
            What::Remove => Ok(()),
        }
    }

    /// Makes the change, unless somebody has edited the file meanwhile.
    fn show(&self) -> Result<(), StoreError> {
        let now = file::print(&self.folder, &self.name).map_err(|error| self.failed(error))?;
        if now != self.before {
            return Err(match self.before {
                None => StoreError::AlreadyExists(self.key.clone()),
                Some(_) => StoreError::Conflict(self.key.clone()),
            });
        }
        let folder = &self.folder;
        match &self.what {
            What::Put { temporary, .. } => renameat(folder, temporary, folder, &self.name),
            What::Remove => unlinkat(folder, &self.name, AtFlags::empty()),
        }
        .map_err(|errno| self.failed(errno))
    }

    /// A disk that is full shall not stay so for our sake. If this fails too, a later write replaces what is left.
    fn clean_up(&self) {
        if let What::Put { temporary, .. } = &self.what {
            let _left = unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}

/// Syncs the temporary files, a few side by side if there are threads to be had.
fn sync_files(pending: &mut [Pending]) {
    let part = pending.len().div_ceil(SYNCS).max(1);
    let sync = |part: &mut [Pending]| {
        for pending in part.iter_mut().filter(|pending| !pending.synced) {
            pending.outcome = pending.change.sync();
            pending.synced = true;
        }
    };
    thread::scope(|scope| {
        let (own, others) = pending.split_at_mut(part.min(pending.len()));
        for part in others.chunks_mut(part) {
            let _or_below = thread::Builder::new().spawn_scoped(scope, move || sync(part));
        }
        sync(own);
    });
    sync(pending);
}

/// Syncs each folder in which something changed, once.
fn sync_folders(pending: &mut [Pending]) {
    let mut results: BTreeMap<PathBuf, Result<(), Errno>> = BTreeMap::new();
    for pending in pending.iter_mut().filter(|pending| pending.outcome.is_ok()) {
        let change = &pending.change;
        let result = results
            .entry(change.path.clone())
            .or_insert_with(|| fsync(&change.folder));
        if let Err(errno) = result {
            pending.outcome = Err(change.failed(errno));
        }
    }
}

//! The thread that writes. What waits for it is carried out together: under one lock, with the files synced side by side and
//! each folder synced once.
//!
//! What takes long in a write is to wait for the disk, and a disk takes many orders at a time.

use std::{
    collections::HashMap,
    fs::File,
    io, iter, mem,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use rustix::fs::{AtFlags, fsync, renameat, unlinkat};
use tokio::sync::oneshot;

use super::{
    super::{Kind, ObjectKey, StoreError, metrics},
    file::{self, FileError, Fingerprint},
    folder::Folder,
    layout::{file_name, temporary},
    lock::RETRY,
};

/// As many writes are carried out together at most.
const MAX_BATCH: usize = 64;

/// As many files are synced side by side at most.
const SYNCS: usize = 8;

/// A write that waits for its turn: it joins a batch, or is told why there is none.
type Job = dyn FnOnce(Result<&mut Batch, StoreError>) + Send;

/// Writes that are carried out together, while the lock is held.
pub(super) struct Batch {
    pub(super) folder: Arc<Folder>,
    pub(super) root: File,
    edits: Vec<Edit>,
    /// Replies to the callers of the edits, in their order.
    replies: Vec<Box<Reply>>,
}

type Reply = dyn FnOnce(Result<(), FileError>) + Send;

/// A write up to the point where it shows: what it returns once it is done, and what is to be done.
pub(super) type Staged<T> = (T, Option<Edit>);

/// What is to become of an object's file.
pub(super) struct Edit {
    pub(super) folder: File,
    pub(super) path: PathBuf,
    pub(super) key: ObjectKey,
    /// The file as it was read, `None` if there was none. It may be edited at any time.
    pub(super) before: Option<Fingerprint>,
    /// What takes its place: the name of a temporary file, and its content. If there is none, the file goes.
    pub(super) replacement: Option<(String, File)>,
}

/// Hands writes to the thread, which ends with the last of these.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Box<Job>>);

impl Writer {
    pub(super) fn start(folder: Arc<Folder>) -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel();
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(&folder, &jobs))?;
        Ok(Self(sender))
    }

    /// Carries a write out. It is not begun if its caller has gone meanwhile.
    pub(super) async fn write<K: Kind, T: Send + 'static>(
        &self,
        operation: &'static str,
        key: ObjectKey,
        stage: impl FnOnce(&Batch) -> Result<Staged<T>, FileError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, reply) = oneshot::channel();
        let job = move |batch: Result<&mut Batch, StoreError>| {
            if sender.is_closed() {
                return;
            }
            let started = Instant::now();
            let finish = move |result: Result<T, StoreError>| {
                metrics::write::<K, T>(operation, started.elapsed(), &result);
                // Who asked may have gone meanwhile.
                let _gone = sender.send(result);
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return finish(Err(error)),
            };
            let path = batch.folder.file_of::<K>(&key);
            batch.settle(&path);
            let staged = stage(batch);
            let finish = move |result: Result<T, FileError>| {
                finish(result.map_err(|error| error.in_store(&path, &key)));
            };
            match staged {
                Ok((value, Some(edit))) => {
                    batch.edits.push(edit);
                    let reply = |result: Result<(), _>| finish(result.map(|()| value));
                    batch.replies.push(Box::new(reply));
                }
                Ok((value, None)) => finish(Ok(value)),
                Err(error) => finish(Err(error)),
            }
        };
        // If the thread panicked this fails, and then so does the reply.
        let _sent = self.0.send(Box::new(job));
        let panicked = |_| resume_unwind(Box::new("the writer of the folder panicked"));
        reply.await.unwrap_or_else(panicked)
    }
}

fn run(folder: &Arc<Folder>, jobs: &mpsc::Receiver<Box<Job>>) {
    let mut next = jobs.recv();
    while let Ok(first) = next {
        let batch = iter::once(first).chain(jobs.try_iter()).take(MAX_BATCH);
        carry_out(folder, batch);
        next = match jobs.try_recv() {
            Ok(job) => {
                // Lets other processes have the lock: they try it from time to time.
                thread::sleep(2 * RETRY);
                Ok(job)
            }
            Err(_) => jobs.recv(),
        };
    }
}

fn carry_out(folder: &Arc<Folder>, jobs: impl Iterator<Item = Box<Job>>) {
    let (root, _lock) = match folder.lock() {
        Ok(locked) => locked,
        Err(error) => return jobs.for_each(|job| job(Err(error.clone()))),
    };
    let mut batch = Batch {
        folder: Arc::clone(folder),
        root,
        edits: Vec::new(),
        replies: Vec::new(),
    };
    jobs.for_each(|job| job(Ok(&mut batch)));
    batch.commit();
}

impl Batch {
    /// The name of the file that the next write may write to.
    pub(super) fn temporary(&self) -> String {
        temporary(self.edits.len())
    }

    /// Carries out what there is if an edit of this file is among it: the next one must see what that one did.
    fn settle(&mut self, path: &Path) {
        if self.edits.iter().any(|edit| edit.path == path) {
            self.commit();
        }
    }

    /// Carries the edits out, and replies to each.
    fn commit(&mut self) {
        let edits = mem::take(&mut self.edits);
        let mut outcomes = sync_files(&edits);
        for (edit, outcome) in iter::zip(&edits, &mut outcomes) {
            if outcome.is_ok() {
                *outcome = edit.show();
            }
            if outcome.is_err() {
                edit.clean_up();
            }
        }
        let mut synced = HashMap::new();
        let replies = self.replies.drain(..);
        for ((edit, mut outcome), reply) in edits.iter().zip(outcomes).zip(replies) {
            if outcome.is_ok() {
                let folder = edit.path.parent();
                let result = synced.entry(folder).or_insert_with(|| fsync(&edit.folder));
                outcome = result.map_err(FileError::from);
            }
            if outcome.is_ok() && edit.replacement.is_some() {
                let folder = edit.path.parent().map(Path::to_owned);
                self.folder.populated().extend(folder);
            }
            reply(outcome);
        }
    }
}

impl Edit {
    fn sync(&self) -> Result<(), FileError> {
        match &self.replacement {
            Some((_, content)) => Ok(content.sync_all()?),
            None => Ok(()),
        }
    }

    /// Makes the edit, unless somebody else has edited the file meanwhile.
    fn show(&self) -> Result<(), FileError> {
        let (folder, name) = (&self.folder, file_name(&self.key.name));
        if file::fingerprint(folder, &name)? != self.before {
            let key = self.key.clone();
            return Err(match self.before {
                None => StoreError::AlreadyExists(key).into(),
                Some(_) => StoreError::Conflict(key).into(),
            });
        }
        match &self.replacement {
            Some((temporary, _)) => renameat(folder, temporary, folder, name)?,
            None => unlinkat(folder, name, AtFlags::empty())?,
        }
        Ok(())
    }

    /// A disk that is full shall not stay so for our sake. If this fails too, a later write replaces what is left.
    fn clean_up(&self) {
        if let Some((temporary, _)) = &self.replacement {
            let _left = unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}

/// Syncs the temporary files, a few side by side if there are threads to be had.
fn sync_files(edits: &[Edit]) -> Vec<Result<(), FileError>> {
    let sync = |part: &[Edit]| part.iter().map(Edit::sync).collect::<Vec<_>>();
    thread::scope(|scope| {
        let (own, others) = edits.split_at(edits.len().div_ceil(SYNCS));
        let start = |part| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || sync(part));
            (part, thread)
        };
        let others: Vec<_> = others.chunks(own.len().max(1)).map(start).collect();
        let mut outcomes = sync(own);
        for (part, thread) in others {
            outcomes.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => sync(part),
            });
        }
        outcomes
    })
}

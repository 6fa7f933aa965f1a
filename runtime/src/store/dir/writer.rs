//! The thread that writes. Waiting writes become a batch: under one lock, with files synced in parallel and each folder
//! synced once.
//!
//! A write mostly waits for the disk, and a disk handles many requests in parallel.

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

/// The largest number of writes in a batch.
const MAX_BATCH: usize = 64;

/// The largest number of files synced in parallel.
const SYNCS: usize = 8;

/// A waiting write: it joins a batch, or gets the error of the batch.
type Job = dyn FnOnce(Result<&mut Batch, StoreError>) + Send;

/// Writes that share the lock.
pub(super) struct Batch {
    pub(super) folder: Arc<Folder>,
    pub(super) root: File,
    edits: Vec<Edit>,
    /// Replies to the callers of the edits, in their order.
    replies: Vec<Box<Reply>>,
}

type Reply = dyn FnOnce(Result<(), FileError>) + Send;

/// A prepared write: its result on success, and its edit of a file.
pub(super) type Staged<T> = (T, Option<Edit>);

/// The edit of an object's file.
pub(super) struct Edit {
    pub(super) folder: File,
    pub(super) path: PathBuf,
    pub(super) key: ObjectKey,
    /// The file at its read, `None` if there was none. It may be edited at any time.
    pub(super) before: Option<Fingerprint>,
    /// The replacement: the name of a temporary file, and its content. `None` deletes the file.
    pub(super) replacement: Option<(String, File)>,
}

/// Passes writes to the thread, which ends with the last clone.
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

    /// Carries a write out. A write whose caller was cancelled is not begun.
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
                // The caller may have been cancelled meanwhile.
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
        // If the thread panicked, this fails, and then the reply fails too.
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
                // Lets other processes take the lock, which they poll.
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
    /// The name of the temporary file of the next write.
    pub(super) fn temporary(&self) -> String {
        temporary(self.edits.len())
    }

    /// Commits the batch if it has an edit of this file: the next write must see that edit.
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

    /// Makes the edit visible, unless the file was edited meanwhile.
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

    /// On a full disk temporary files must not stay. If this fails too, a later write replaces them.
    fn clean_up(&self) {
        if let Some((temporary, _)) = &self.replacement {
            let _left = unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}

/// Syncs the temporary files, in parallel if threads are available.
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

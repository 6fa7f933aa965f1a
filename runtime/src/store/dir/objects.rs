//! Reading and writing one object. Everything here blocks.

use std::{
    collections::HashSet,
    fmt::Display,
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fchmod, fsync, mkdirat, openat, unlinkat},
    io::Errno,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    super::{BadObjects, Kind, ObjectKey, Precondition, StoreError},
    batch::{Change, Staged, Turn, What},
    file::{self, Content, Identity, Print, ReadError},
    layout::{self, file_name},
    lock::Lock,
    manifest::{self, Fault, MAX_SIZE, Manifest, too_large},
};

/// How often a file that changes while it is read is read again before that is an error.
const READ_ATTEMPTS: usize = 5;

/// The folder of a store.
pub(super) struct Folder {
    /// Absolute.
    pub(super) root: PathBuf,
    /// How long a write waits for other processes.
    pub(super) lock_timeout: Duration,
    /// Folders in which objects were seen: should one vanish, then something is wrong.
    populated: Mutex<HashSet<PathBuf>>,
    /// Files that a watch cannot read.
    pub(super) bad_objects: BadObjects,
}

/// An object's file as it was read.
struct Stored<K> {
    folder: OwnedFd,
    manifest: Manifest<K>,
    content: Content,
}

impl Folder {
    pub(super) fn new(root: PathBuf, lock_timeout: Duration) -> Self {
        Self {
            root,
            lock_timeout,
            populated: Mutex::default(),
            bad_objects: BadObjects::default(),
        }
    }

    /// Where the objects of a kind in a namespace are.
    pub(super) fn path_of<K: Kind>(&self, namespace: &str) -> PathBuf {
        self.root.join(namespace).join(&*K::plural(&()))
    }

    fn file_of<K: Kind>(&self, key: &ObjectKey) -> PathBuf {
        self.path_of::<K>(&key.namespace).join(file_name(&key.name))
    }

    /// The folders in which objects were seen.
    pub(super) fn populated(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // Each change is a single call: a panic elsewhere leaves nothing half done.
        self.populated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the root.
    ///
    /// # Errors
    /// In words: it is gone, or cannot be read.
    pub(super) fn open_root(&self) -> Result<OwnedFd, String> {
        match file::open_folder(&self.root) {
            Ok(Some(root)) => Ok(root),
            Ok(None) => Err(format!("the folder {} is gone", self.root.display())),
            Err(error) => Err(at(&self.root, error)),
        }
    }

    /// Opens the folder of a kind; `None` if there never was one.
    fn open<K: Kind>(
        &self,
        root: impl AsFd,
        namespace: &str,
    ) -> Result<Option<OwnedFd>, StoreError> {
        let path = self.path_of::<K>(namespace);
        let folder = file::open_in(root, namespace)
            .and_then(|folder| match folder {
                Some(folder) => file::open_kind(folder, &K::plural(&())),
                None => Ok(None),
            })
            .map_err(|error| StoreError::unavailable(at(&path, error)))?;
        if folder.is_none() && self.populated().contains(&path) {
            return Err(StoreError::unavailable(vanished(&path)));
        }
        Ok(folder)
    }

    fn stored<K: Kind>(&self, root: impl AsFd, key: &ObjectKey) -> Result<Stored<K>, StoreError> {
        layout::check(key).map_err(|reason| invalid(key, reason))?;
        let folder = self
            .open::<K>(root, &key.namespace)?
            .ok_or_else(|| StoreError::NotFound(key.clone()))?;
        let content = self
            .content::<K>(&folder, key)?
            .ok_or_else(|| StoreError::NotFound(key.clone()))?;
        let manifest = manifest::parse(&content.bytes, key, content.identity)
            .map_err(|fault| self.faulty::<K>(key, &fault))?;
        self.populated().insert(self.path_of::<K>(&key.namespace));
        Ok(Stored {
            folder,
            manifest,
            content,
        })
    }

    fn content<K: Kind>(
        &self,
        folder: impl AsFd,
        key: &ObjectKey,
    ) -> Result<Option<Content>, StoreError> {
        for _ in 0..READ_ATTEMPTS {
            return match file::read(folder.as_fd(), &file_name(&key.name)) {
                Ok(content) => Ok(content),
                Err(ReadError::Changing) => continue,
                Err(ReadError::Fault(fault)) => Err(self.faulty::<K>(key, &fault)),
                Err(ReadError::Io(error)) => {
                    Err(StoreError::unavailable(at(&self.file_of::<K>(key), error)))
                }
            };
        }
        Err(StoreError::unavailable(format!(
            "{} keeps changing",
            self.file_of::<K>(key).display()
        )))
    }

    fn faulty<K: Kind>(&self, key: &ObjectKey, fault: &Fault) -> StoreError {
        invalid(key, format!("{}{fault}", self.file_of::<K>(key).display()))
    }

    pub(super) fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let root = self.open_root().map_err(StoreError::unavailable)?;
        Ok(self.stored(root, key)?.manifest.object)
    }

    pub(super) fn create<K: Kind>(
        &self,
        turn: &Turn<'_>,
        object: &K,
    ) -> Result<Staged<K>, StoreError> {
        let key = ObjectKey::of(object);
        layout::check(&key).map_err(|reason| invalid(&key, reason))?;
        let uid = Uuid::new_v4().to_string();
        let document =
            manifest::create(object, &key, &uid).map_err(|fault| invalid(&key, fault.reason))?;
        let folder = match self.open::<K>(turn.root, &key.namespace)? {
            Some(folder) => folder,
            None => self.make::<K>(turn.root, &key.namespace)?,
        };
        if let Some(content) = self.content::<K>(&folder, &key)? {
            manifest::parse::<K>(&content.bytes, &key, content.identity)
                .map_err(|fault| self.faulty::<K>(&key, &fault))?;
            return Err(StoreError::AlreadyExists(key));
        }
        self.put(turn, folder, key, &document, None)
    }

    pub(super) fn replace_status<K: Kind>(
        &self,
        turn: &Turn<'_>,
        object: &K,
    ) -> Result<Staged<K>, StoreError> {
        let key = ObjectKey::of(object);
        let expected = Precondition {
            uid: object.meta().uid.clone(),
            resource_version: object.meta().resource_version.clone(),
        };
        if expected.resource_version.is_none() {
            return Err(invalid(&key, "it has no resourceVersion to compare"));
        }
        let stored = self.stored::<K>(turn.root, &key)?;
        self.writable(&stored, &key, &expected)?;
        let document = manifest::with_status(stored.manifest.document.clone(), object)
            .map_err(|fault| invalid(&key, fault.reason))?;
        if document == stored.manifest.document {
            return Ok(Staged::Done(stored.manifest.object));
        }
        let Content { mode, seen, .. } = stored.content;
        self.put(turn, stored.folder, key, &document, Some((seen, mode)))
    }

    pub(super) fn delete<K: Kind>(
        &self,
        turn: &Turn<'_>,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<Staged<()>, StoreError> {
        let stored = self.stored::<K>(turn.root, key)?;
        self.writable(&stored, key, precondition)?;
        let before = Some(stored.content.seen);
        let change = self.change::<K>(stored.folder, key.clone(), before, What::Remove);
        Ok(Staged::Change(change, ()))
    }

    /// Whether an object is still the expected one and its file is ours to change.
    fn writable<K: Kind>(
        &self,
        stored: &Stored<K>,
        key: &ObjectKey,
        expected: &Precondition,
    ) -> Result<(), StoreError> {
        let meta = stored.manifest.object.meta();
        let differs = |expected: &Option<String>, found: &Option<String>| {
            expected.is_some() && expected != found
        };
        if differs(&expected.uid, &meta.uid)
            || differs(&expected.resource_version, &meta.resource_version)
        {
            return Err(StoreError::Conflict(key.clone()));
        }
        match file::is_link(&stored.folder, &file_name(&key.name)) {
            Ok(false) => Ok(()),
            Ok(true) => Err(self.faulty::<K>(
                key,
                &Fault::new("a symbolic link is read but never written"),
            )),
            Err(error) => Err(StoreError::unavailable(at(&self.file_of::<K>(key), error))),
        }
    }

    /// Opens the root and takes the lock.
    pub(super) fn lock(&self) -> Result<(OwnedFd, Lock), StoreError> {
        let root = self.open_root().map_err(StoreError::unavailable)?;
        match Lock::acquire(&root, self.lock_timeout) {
            Ok(lock) => Ok((root, lock)),
            Err(error) => {
                let path = self.root.join(layout::LOCK);
                Err(StoreError::unavailable(match error.kind() {
                    io::ErrorKind::TimedOut => format!(
                        "{} is held by another process for more than {:?}",
                        path.display(),
                        self.lock_timeout
                    ),
                    _ => at(&path, error),
                }))
            }
        }
    }

    /// Makes the folders of a namespace and a kind, durably.
    fn make<K: Kind>(&self, root: impl AsFd, namespace: &str) -> Result<OwnedFd, StoreError> {
        let path = self.path_of::<K>(namespace);
        make_in(root, namespace)
            .and_then(|folder| make_in(folder, &K::plural(&())))
            .map_err(|error| StoreError::unavailable(at(&path, error)))
    }

    /// Writes a document that is to take the place of the object's file, of which the print and the mode are given.
    fn put<K: Kind>(
        &self,
        turn: &Turn<'_>,
        folder: OwnedFd,
        key: ObjectKey,
        document: &Value,
        before: Option<(Print, Mode)>,
    ) -> Result<Staged<K>, StoreError> {
        let text = manifest::emit(document).map_err(|fault| invalid(&key, fault.reason))?;
        if text.len() > MAX_SIZE {
            return Err(StoreError::TooLarge {
                key,
                reason: too_large().reason,
            });
        }
        let mut object: K =
            manifest::decode(document).map_err(|error| invalid(&key, error.to_string()))?;
        let (before, mode) = before.unzip();
        let (content, identity) = write(&folder, &turn.temporary, text.as_bytes(), mode)
            .map_err(|error| StoreError::unavailable(at(&self.file_of::<K>(&key), error)))?;
        manifest::complete(
            &mut object,
            &key,
            manifest::version(text.as_bytes(), identity),
        );
        let temporary = turn.temporary.clone();
        let what = What::Put { temporary, content };
        let change = self.change::<K>(folder, key, before, what);
        Ok(Staged::Change(change, object))
    }

    fn change<K: Kind>(
        &self,
        folder: OwnedFd,
        key: ObjectKey,
        before: Option<Print>,
        what: What,
    ) -> Box<Change> {
        Box::new(Change {
            folder,
            path: self.path_of::<K>(&key.namespace),
            file_path: self.file_of::<K>(&key),
            name: file_name(&key.name),
            key,
            before,
            what,
        })
    }
}

/// Writes a temporary file; returns it with its identity. One that a killed process left is replaced.
fn write(
    folder: &OwnedFd,
    name: &str,
    bytes: &[u8],
    mode: Option<Mode>,
) -> io::Result<(File, Identity)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let open = || openat(folder, name, flags, Mode::from_raw_mode(0o666));
    let temporary = match open() {
        Err(Errno::EXIST) => {
            unlinkat(folder, name, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    let mut file = File::from(temporary);
    let written = (|| {
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            fchmod(&file, mode)?;
        }
        Identity::of_file(&file)
    })();
    match written {
        Ok(identity) => Ok((file, identity)),
        Err(error) => {
            // A disk that is full shall not stay so for our sake. If this fails too, the next write replaces it.
            let _left = unlinkat(folder, name, AtFlags::empty());
            Err(error)
        }
    }
}

fn make_in(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(parent.as_fd(), name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    fsync(parent.as_fd())?;
    file::open_in(parent, name)?.ok_or_else(|| io::ErrorKind::NotADirectory.into())
}

pub(super) fn at(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}

/// What to say of a folder that had objects and is gone.
pub(super) fn vanished(path: &Path) -> String {
    format!(
        "the folder {} had objects and is gone: put it back, or make it empty if they are to go",
        path.display()
    )
}

fn invalid(key: &ObjectKey, reason: impl Into<String>) -> StoreError {
    StoreError::Invalid {
        key: key.clone(),
        reason: reason.into(),
    }
}

//! Reads folders and files.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::OFlags;

use super::{
    super::{ObjectKey, StoreError},
    fault::{Fault, MAX_SIZE, too_large},
};

/// A younger file can change again without new timestamps, which are as coarse as the kernel's tick.
const TIME_GRAIN: Duration = Duration::from_millis(100);

/// How often a file is read again if another one replaces it during the read.
const READ_ATTEMPTS: usize = 5;

/// Identifies a file or a folder, and shows without a read whether it changed since the last one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Fingerprint {
    device: u64,
    inode: u64,
    /// The epoch if the file system does not know it.
    created: SystemTime,
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl Fingerprint {
    /// Whether it is the same file or folder, changed or not. A new file at the same path is not, even with the same
    /// inode: a file system may give it to the next new file.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.created) == (other.device, other.inode, other.created)
    }

    /// Whether a later change is sure to show.
    pub(super) fn is_settled(&self) -> bool {
        self.changed.elapsed().is_ok_and(|age| age > TIME_GRAIN)
    }

    /// The file's identity, as a part of a version.
    pub(super) fn identity(&self) -> String {
        let created = self.created.duration_since(UNIX_EPOCH);
        let created = created.unwrap_or_default().as_nanos();
        format!("{:x}-{created:x}", self.inode)
    }
}

impl From<&Metadata> for Fingerprint {
    fn from(metadata: &Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| {
            UNIX_EPOCH
                + Duration::from_secs(seconds.unsigned_abs())
                + Duration::from_nanos(nanoseconds.unsigned_abs())
        };
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: metadata.created().unwrap_or(UNIX_EPOCH),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file's content.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) permissions: Permissions,
    /// The file's fingerprint at the read.
    pub(super) fingerprint: Fingerprint,
    /// Open, so that no other file gets its inode.
    pub(super) _file: File,
}

/// Why an object's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The file has a fault.
    #[error("{}", .0.reason)]
    Fault(#[from] Fault),
    #[error("it is being written")]
    Changing,
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The object is not the expected one.
    #[error(transparent)]
    Refused(#[from] StoreError),
}

impl FileError {
    /// The store's error for it.
    pub(super) fn in_store(self, path: &Path, key: &ObjectKey) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Fault(fault) => StoreError::Invalid {
                key: key.clone(),
                reason: format!("{}{fault}", path.display()),
            },
            error => StoreError::unavailable(format!("{}: {error}", path.display())),
        }
    }
}

/// The names in a folder, sorted; `None` if there is no such folder. Any other file in its place is an error.
pub(super) fn names(folder: &Path) -> io::Result<Option<Vec<String>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_absent(folder, &error) => return Ok(None),
        entries => entries?,
    };
    // A name that is no UTF-8 has a replacement character.
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names = entries
        .map(|entry| entry.map(name))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(Some(names))
}

/// Whether an error means that there is no such folder. The target of a link may come back, such as a mount.
fn is_absent(folder: &Path, error: &io::Error) -> bool {
    let parent = folder.parent().unwrap_or(folder);
    match error.kind() {
        io::ErrorKind::NotFound => !is_link(folder) && !is_link(parent),
        io::ErrorKind::NotADirectory => !parent.is_dir(),
        _ => false,
    }
}

/// The file's fingerprint, `None` if there is no such file. Follows a symbolic link.
pub(super) fn fingerprint(path: &Path) -> io::Result<Option<Fingerprint>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(Fingerprint::from(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it is a symbolic link.
pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a file; `None` if there is none of that name. Follows a symbolic link. A file that is replaced during the read
/// is read again at once.
pub(super) fn read(path: &Path) -> Result<Option<Content>, FileError> {
    // Without NONBLOCK, opening a named pipe would wait for its writer.
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    for _ in 0..READ_ATTEMPTS {
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Err(_) if is_link(path) => return Err(Fault::new("a symbolic link to nothing").into()),
            Err(_) => return Ok(None),
        };
        let before = file.metadata()?;
        if !before.is_file() {
            return Err(Fault::new("not a file").into());
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_SIZE {
            return Err(too_large().into());
        }
        let after = file.metadata()?;
        let fingerprint = Fingerprint::from(&after);
        if fingerprint == Fingerprint::from(&before) {
            return Ok(Some(Content {
                bytes,
                permissions: after.permissions(),
                fingerprint,
                _file: file,
            }));
        }
        // A replaced file has lost its name. Any other changed file is being written.
        if after.nlink() >= before.nlink() {
            break;
        }
    }
    Err(FileError::Changing)
}

#[cfg(test)]
mod tests;

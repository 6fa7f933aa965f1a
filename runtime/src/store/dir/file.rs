//! Reads folders and files, always relative to an open folder. If a folder is moved away while it is read, the open one
//! is still complete, so a missing file is really missing.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, StatxTimestamp, openat, statx,
    },
    io::Errno,
};

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
    device: (u32, u32),
    inode: u64,
    /// The epoch if the file system does not know it.
    created: SystemTime,
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl Fingerprint {
    /// The fingerprint of an open file or folder.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&stat(file, "", AtFlags::EMPTY_PATH)?))
    }

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

impl From<&Statx> for Fingerprint {
    fn from(stat: &Statx) -> Self {
        let time = |at: StatxTimestamp| {
            let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
            UNIX_EPOCH + Duration::new(seconds, at.tv_nsec)
        };
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            created: time(stat.stx_btime),
            size: stat.stx_size,
            modified: time(stat.stx_mtime),
            changed: time(stat.stx_ctime),
        }
    }
}

/// A file's content.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: Mode,
    /// The file's fingerprint at the read.
    pub(super) fingerprint: Fingerprint,
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

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
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

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens a folder by its path.
pub(super) fn open_folder(path: &Path) -> io::Result<Option<File>> {
    let folder = found(openat(CWD, path, FOLDER, Mode::empty()))?;
    Ok(folder.map(File::from))
}

/// Opens a folder in a folder; `None` if there is none of that name.
pub(super) fn open_in(folder: impl AsFd, name: &str) -> io::Result<Option<File>> {
    match open_kind(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        opened => opened,
    }
}

/// Opens the folder of a kind in that of a namespace; `None` if there is none. Any other file in its place is an error.
pub(super) fn open_kind(namespace: impl AsFd, plural: &str) -> io::Result<Option<File>> {
    match openat(namespace.as_fd(), plural, FOLDER, Mode::empty()) {
        Ok(folder) => Ok(Some(folder.into())),
        // The target of the link may come back, such as a mount.
        Err(Errno::NOENT) if is_link(namespace, plural)? => {
            Err(io::Error::other("a symbolic link to nothing"))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn found<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The names in a folder, sorted; a name that is no UTF-8 has a replacement character.
pub(super) fn names(folder: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The file's fingerprint, `None` if there is no such file. Follows a symbolic link.
pub(super) fn fingerprint(folder: impl AsFd, name: &str) -> io::Result<Option<Fingerprint>> {
    found(stat(folder, name, AtFlags::empty()).map(|stat| Fingerprint::from(&stat)))
}

/// Whether it is a symbolic link.
pub(super) fn is_link(folder: impl AsFd, name: &str) -> io::Result<bool> {
    let stat = found(stat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(stat.is_some_and(|stat| file_type(&stat) == FileType::Symlink))
}

fn stat(folder: impl AsFd, name: &str, flags: AtFlags) -> rustix::io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(folder, name, flags, wanted)
}

fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// Reads a file; `None` if there is none of that name. Follows a symbolic link. A file that is replaced during the read
/// is read again at once.
pub(super) fn read(folder: impl AsFd, name: &str) -> Result<Option<Content>, FileError> {
    let not_a_file = || Fault::new("not a file");
    for _ in 0..READ_ATTEMPTS {
        // Without NONBLOCK, opening a named pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(folder.as_fd(), name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) if is_link(folder.as_fd(), name)? => {
                return Err(Fault::new("a symbolic link to nothing").into());
            }
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NXIO | Errno::NODEV) => return Err(not_a_file().into()),
            Err(errno) => return Err(errno.into()),
        };
        let before = stat(&file, "", AtFlags::EMPTY_PATH)?;
        if file_type(&before) != FileType::RegularFile {
            return Err(not_a_file().into());
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_SIZE {
            return Err(too_large().into());
        }
        let after = stat(&file, "", AtFlags::EMPTY_PATH)?;
        let fingerprint = Fingerprint::from(&after);
        if fingerprint == Fingerprint::from(&before) {
            return Ok(Some(Content {
                bytes,
                mode: Mode::from_raw_mode(before.stx_mode.into()),
                fingerprint,
            }));
        }
        // A replaced file has lost its name. Any other changed file is being written.
        if after.stx_nlink >= before.stx_nlink {
            break;
        }
    }
    Err(FileError::Changing)
}

#[cfg(test)]
mod tests;

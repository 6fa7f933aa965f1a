//! Reading folders and files, always relative to an open folder: a folder that is moved away while it is read is still
//! that folder, and what is missing in it is really missing.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

use super::manifest::{Fault, MAX_SIZE, too_large};

/// Younger than this, a file can be written again without its times showing it: they are as coarse as the kernel's tick.
const TIME_GRAIN: Duration = Duration::from_millis(100);

/// How often a file that another one replaces while it is read is read again.
const READ_ATTEMPTS: usize = 5;

/// What tells, without reading it, whether a file is still the one that was read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Print {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

// The types of the fields differ by architecture.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
impl From<&Stat> for Print {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }
}

impl Print {
    /// Whether a later change is sure to show.
    pub(super) fn is_settled(&self) -> bool {
        let changed = Duration::new(
            u64::try_from(self.changed.0).unwrap_or(0),
            u32::try_from(self.changed.1).unwrap_or(0),
        );
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .is_ok_and(|now| now.saturating_sub(changed) > TIME_GRAIN)
    }
}

/// A file's content.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) identity: Identity,
    pub(super) mode: Mode,
    /// The file as it was read.
    pub(super) print: Print,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It is no file of ours.
    Fault(Fault),
    /// It was written while it was read.
    Changing,
    /// The system says no.
    Io(io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// What tells a folder or a file from another one that took its path, even if the file system gave that one its inode, as
/// it does at once with the next file that is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// Not known on every file system.
    created: Option<SystemTime>,
}

impl Identity {
    /// That of an open file or folder.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: metadata.created().ok(),
        })
    }

    /// For a version.
    pub(super) fn text(self) -> String {
        let created = self
            .created
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let created = created.map_or(0, |at| at.as_nanos());
        format!("{:x}-{created:x}", self.inode)
    }

    /// One that no file has.
    #[cfg(test)]
    pub(super) fn made_up(inode: u64, created: Duration) -> Self {
        Self {
            device: 0,
            inode,
            created: Some(UNIX_EPOCH + created),
        }
    }
}

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

/// Opens the folder of a kind in that of a namespace; `None` if there is none. Something else in its place is an error.
pub(super) fn open_kind(namespace: impl AsFd, plural: &str) -> io::Result<Option<File>> {
    match openat(namespace.as_fd(), plural, FOLDER, Mode::empty()) {
        Ok(folder) => Ok(Some(folder.into())),
        // What it leads to may come back, such as a mount.
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

/// The names in a folder; those that are not UTF-8 with a replacement character.
pub(super) fn names(folder: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// The file's print, `None` if there is no such file. Follows a symbolic link.
pub(super) fn print(folder: impl AsFd, name: &str) -> io::Result<Option<Print>> {
    found(statat(folder, name, AtFlags::empty()).map(|stat| Print::from(&stat)))
}

/// Whether it is a symbolic link.
pub(super) fn is_link(folder: impl AsFd, name: &str) -> io::Result<bool> {
    let stat = found(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink))
}

/// Reads a file; `None` if there is none of that name. Follows a symbolic link. A file that another one replaces meanwhile is
/// read again at once.
pub(super) fn read(folder: impl AsFd, name: &str) -> Result<Option<Content>, ReadError> {
    for _ in 0..READ_ATTEMPTS {
        // Without NONBLOCK, opening a named pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = match openat(folder.as_fd(), name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) if is_link(folder.as_fd(), name)? => {
                return Err(ReadError::Fault(Fault::new("a symbolic link to nothing")));
            }
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NXIO | Errno::NODEV) => return Err(not_a_file()),
            Err(errno) => return Err(errno.into()),
        };
        let before = fstat(&file)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return Err(not_a_file());
        }
        let mut bytes = Vec::new();
        file.by_ref()
            .take(MAX_SIZE as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > MAX_SIZE {
            return Err(ReadError::Fault(too_large()));
        }
        let after = fstat(&file)?;
        if Print::from(&after) == Print::from(&before) {
            return Ok(Some(Content {
                bytes,
                identity: Identity::of(&file)?,
                mode: Mode::from_raw_mode(before.st_mode),
                print: Print::from(&before),
            }));
        }
        // A file that was replaced has lost its name. Any other is being written.
        if after.st_nlink >= before.st_nlink {
            break;
        }
    }
    Err(ReadError::Changing)
}

fn not_a_file() -> ReadError {
    ReadError::Fault(Fault::new("not a file"))
}

//! Reads files.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

/// The largest file that is read or written, in bytes: 40,000 addresses.
pub(super) const MAX_SIZE: usize = 4 << 20;

/// A file's content.
pub(super) struct Content {
    pub(super) text: String,
    pub(super) permissions: Permissions,
    pub(super) fingerprint: u64,
}

/// Identifies a file, and shows without a read that it changed. A new file may have the inode of an old one.
pub(super) fn fingerprint_of(file: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    let times = (file.created().ok(), file.modified().ok());
    (file.dev(), file.ino(), file.len(), times).hash(&mut hasher);
    hasher.finish()
}

/// The file's fingerprint; `None` if there is no such file. Follows a symbolic link.
pub(super) fn fingerprint(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|file| fingerprint_of(&file))
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a file; `None` if there is none of that name. Follows a symbolic link.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<Content>> {
    // Without NONBLOCK, opening a named pipe would wait for its writer.
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match options.read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) if path.is_symlink() => bail!("a symbolic link to nothing"),
        Err(_) => return Ok(None),
    };
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "not a file");
    let mut bytes = Vec::new();
    (&file).take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() <= MAX_SIZE, "larger than {MAX_SIZE} bytes");
    let fingerprint = fingerprint_of(&metadata);
    let is_whole = fingerprint == fingerprint_of(&file.metadata()?);
    ensure!(is_whole, io::Error::other("it is being written"));
    Ok(Some(Content {
        text: String::from_utf8(bytes).context("not UTF-8")?,
        permissions: metadata.permissions(),
        fingerprint,
    }))
}

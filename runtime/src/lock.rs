//! The lock that makes compare and rename atomic across processes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

/// How often a lock that another process holds is retried.
const RETRY: Duration = Duration::from_millis(1);

/// `flock` on a file, until it is dropped or its process ends.
pub(crate) struct Lock(pub(crate) File);

impl Lock {
    /// Takes the lock on a file, which is created if needed; `None` if another process, or another part of this one,
    /// has it.
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let lock = Self(options.open(path)?);
        match lock.0.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Another process may have removed or renamed the file since it was opened.
        let is_in_place = lock.is_in_place(path)?;
        Ok(is_in_place.then_some(lock))
    }

    /// Whether the locked file is still the one at this path. Otherwise other processes would lock another file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn is_in_place(&self, path: &Path) -> io::Result<bool> {
        let ours = self.0.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock. The calling thread sleeps meanwhile.
    ///
    /// It polls instead of blocking, so that nothing is written after the time-out was reported.
    ///
    /// # Errors
    /// The lock file cannot be created or opened; [`io::ErrorKind::TimedOut`].
    pub(crate) fn acquire(path: &Path, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            thread::sleep(RETRY);
        }
        let path = path.display();
        let words = format!("{path} is held by another process for more than {timeout:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    }
}

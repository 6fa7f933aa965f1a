//! The lock that makes read, compare and write atomic across processes.

use std::{
    fs::{File, TryLockError},
    io,
    os::fd::AsFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};

use super::{file::open_folder, layout::LOCK};

/// How often a lock that another process holds is retried.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// `flock` on a file, until it is dropped or its process ends.
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock on a file of this name in the folder, which is created if needed; `None` if another process has
    /// it.
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub(crate) fn of_file(root: &Path, name: &str) -> io::Result<Option<Self>> {
        Self::try_acquire(&open_root(root)?, name)
    }

    /// Whether the locked file is still the one of this name in the folder. Otherwise other processes would lock
    /// another file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn is_in_place(&self, root: &Path, name: &str) -> io::Result<bool> {
        self.is_in(&open_root(root)?, name)
    }

    fn is_in(&self, root: impl AsFd, name: &str) -> io::Result<bool> {
        let ours = fstat(&self.0)?;
        match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn try_acquire(root: impl AsFd, name: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(root.as_fd(), name, flags, Mode::from_raw_mode(0o666))?;
        let lock = Self(file.into());
        match lock.0.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Another process may have removed the file since it was opened.
        let is_in_place = lock.is_in(root, name)?;
        Ok(is_in_place.then_some(lock))
    }

    /// Takes the lock of the folder. The calling thread sleeps meanwhile.
    ///
    /// It polls instead of blocking, so that nothing is written after the time-out was reported.
    ///
    /// # Errors
    /// The lock file cannot be created or opened; [`io::ErrorKind::TimedOut`].
    pub(super) fn acquire(root: impl AsFd, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(lock) = Self::try_acquire(root.as_fd(), LOCK)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(RETRY);
        }
    }
}

fn open_root(root: &Path) -> io::Result<File> {
    open_folder(root)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_second_holder_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_folder(dir.path()).unwrap().unwrap();
        let first = Lock::acquire(&root, LONG).unwrap();
        let error = Lock::acquire(&root, Duration::from_millis(5)).err();
        assert_eq!(error.unwrap().kind(), io::ErrorKind::TimedOut);

        let (got, second) = mpsc::channel();
        let thread = thread::spawn(move || got.send(Lock::acquire(&root, LONG).is_ok()));
        assert!(second.try_recv().is_err());
        drop(first);
        assert!(second.recv_timeout(LONG).unwrap());
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_lock_file_that_was_removed_does_not_split_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_folder(dir.path()).unwrap().unwrap();
        let first = Lock::acquire(&root, LONG).unwrap();
        let waiting = thread::spawn({
            let root = open_folder(dir.path()).unwrap().unwrap();
            move || Lock::acquire(root, LONG).unwrap()
        });
        fs::remove_file(dir.path().join(LOCK)).unwrap();
        drop(first);
        let _second = waiting.join().unwrap();
        let error = Lock::acquire(&root, Duration::from_millis(5)).err();
        assert_eq!(error.unwrap().kind(), io::ErrorKind::TimedOut);
    }
}

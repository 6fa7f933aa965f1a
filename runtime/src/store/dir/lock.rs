//! The lock that makes read, compare and write one step across processes.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat},
    io::Errno,
};

use super::layout::LOCK;

/// How often a lock that another process holds is tried.
const RETRY: Duration = Duration::from_millis(1);

/// `flock` on `PATH/.lock`, until it is dropped.
pub(super) struct Lock {
    _file: OwnedFd,
}

impl Lock {
    /// Takes the lock of the folder, on the calling thread, which sleeps meanwhile.
    ///
    /// Tries rather than waits, so that nothing is written after the caller was told that the time was over.
    ///
    /// # Errors
    /// The lock file cannot be made or opened; [`io::ErrorKind::TimedOut`].
    pub(super) fn acquire(root: impl AsFd, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        loop {
            let file = openat(root.as_fd(), LOCK, flags, mode)?;
            while let Err(errno) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                match errno {
                    Errno::WOULDBLOCK if Instant::now() < deadline => thread::sleep(RETRY),
                    Errno::WOULDBLOCK => return Err(io::ErrorKind::TimedOut.into()),
                    Errno::INTR => {}
                    errno => return Err(errno.into()),
                }
            }
            // Somebody may have removed the file: then the next to come would lock another.
            let (ours, theirs) = (
                fstat(&file)?,
                statat(root.as_fd(), LOCK, AtFlags::SYMLINK_NOFOLLOW),
            );
            if theirs
                .is_ok_and(|theirs| (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino))
            {
                return Ok(Self { _file: file });
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc};

    use super::{super::file::open_folder, *};

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

//! Processors that do not sleep while something is measured.
//!
//! A virtual processor with nothing to do goes back to its host, which may take longer to return it than the server takes for a
//! change, and each time another while. Client and server wait for each other all the time, so that figures tell more of the host
//! than of either.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, available_parallelism},
};

use rustix::thread::gettid;

/// A thread for each processor that does nothing, and gives way to everything else (SCHED_IDLE, sched(7)). It yields all the
/// time: the kernel now and then lets one that does not run on to its next tick.
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn keep() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let processors = available_parallelism().map_or(1, usize::from);
        let threads = (0..processors).map(|_| {
            let over = over.clone();
            thread::spawn(move || {
                let thread = gettid().as_raw_nonzero().to_string();
                let status = Command::new("chrt")
                    .args(["--idle", "--pid", "0", &thread])
                    .status();
                assert!(status.expect("chrt of util-linux").success(), "chrt");
                while !over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            })
        });
        let threads = threads.collect();
        Self { over, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread that yields");
        }
    }
}

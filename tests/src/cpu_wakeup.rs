//! Keeps processors awake while a bench measures.
//!
//! An idle virtual processor returns to its host. The host may need longer to resume it than a server needs for a
//! request, and the time varies. If two sides wait for each other, the figures would then describe the host.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread::{self, JoinHandle, available_parallelism},
};

use rustix::thread::gettid;

/// An idle-priority thread on each processor (SCHED_IDLE, sched(7)), which gives way to everything else. It yields all
/// the time, because the kernel sometimes lets a thread run on until its next tick.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps them awake until the value is dropped.
    pub fn keep() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            let (over, (sender, id)) = (over.clone(), channel());
            threads.push(thread::spawn(move || {
                sender.send(gettid()).expect("who waits for it");
                while !over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            }));
            let id = id.recv().expect("a thread that yields");
            let id = id.as_raw_nonzero().to_string();
            let status = Command::new("chrt")
                .args(["--idle", "--pid", "0", &id])
                .status();
            assert!(status.expect("chrt of util-linux").success(), "{id}");
        }
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

//! Processors that do not sleep while a bench measures.
//!
//! A virtual processor with nothing to do goes back to its host, which may take longer to return it than a server takes for a
//! request, and each time another while. Where two sides wait for each other, figures then tell more of the host than of either.

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

/// A thread for each processor that does nothing, and gives way to everything else (SCHED_IDLE, sched(7)). It yields all the
/// time: the kernel now and then lets one that does not run on to its next tick.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    ids: Vec<String>,
}

impl Awake {
    /// Keeps them awake until the value is dropped.
    pub fn keep() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (mut threads, mut ids) = (Vec::new(), Vec::new());
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
            ids.push(id);
        }
        Self { over, threads, ids }
    }

    /// The ids of its threads, of which the time on a processor is nobody's.
    pub fn ids(&self) -> &[String] {
        &self.ids
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

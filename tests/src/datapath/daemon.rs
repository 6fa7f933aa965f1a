//! A daemon of OVN or Open vSwitch, started again when it aborts.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::process::Process;

/// How often its thread looks whether the daemon runs.
const LOOK: Duration = Duration::from_millis(20);

/// A running daemon. A thread starts it again when it aborts, as its `--monitor` does on a node. The connection
/// tracking of Open vSwitch 3.1's user-space datapath aborts at times, when a connection outlives the switch:
/// `conn->conn_type == CT_CONN_TYPE_DEFAULT failed in conn_update_state()`. `ovn-controller` 23.03 ended once without a
/// word, before it claimed a port.
#[derive(Debug)]
pub(super) struct Daemon {
    process: Arc<Mutex<Process>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn start(spawn: impl Fn() -> Process + Send + 'static) -> Self {
        let is_ending = Arc::<AtomicBool>::default();
        let (started, process) = std::sync::mpsc::sync_channel(1);
        let ending = Arc::clone(&is_ending);
        // A process ends with the thread that started it.
        let thread = thread::spawn(move || {
            let process = Arc::new(Mutex::new(spawn()));
            let sent = started.send(Arc::clone(&process));
            sent.expect("the caller waits for it");
            while !ending.load(Relaxed) {
                let mut process = lock(&process);
                if process.ended().is_some() {
                    *process = spawn();
                }
                drop(process);
                thread::sleep(LOOK);
            }
        });
        Self {
            process: process.recv().expect("the started process"),
            is_ending,
            thread: Some(thread),
        }
    }
}

impl Drop for Daemon {
    /// `kill -9`.
    fn drop(&mut self) {
        self.is_ending.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
        lock(&self.process).kill();
    }
}

fn lock(process: &Mutex<Process>) -> MutexGuard<'_, Process> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

//! `ovs-vswitchd`, started again when it aborts.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::commands::{control, socket, start};
use crate::{ovn, process::Process};

/// How often its thread looks whether the switch runs.
const LOOK: Duration = Duration::from_millis(20);

/// A running switch. A thread starts it again when it aborts, as its `--monitor` does on a node. The connection
/// tracking of Open vSwitch 3.1's user-space datapath aborts at times, when a connection outlives the switch:
/// `conn->conn_type == CT_CONN_TYPE_DEFAULT failed in conn_update_state()`.
#[derive(Debug)]
pub(super) struct Switch {
    process: Arc<Mutex<Process>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Starts it in a network with the interfaces of the bridge and one end of each pod's link. The network outlasts it.
    pub(super) fn start(folder: &Path, network: u32) -> Self {
        let folder = PathBuf::from(folder);
        let is_ending = Arc::<AtomicBool>::default();
        let (started, process) = std::sync::mpsc::sync_channel(1);
        let ending = Arc::clone(&is_ending);
        // A process ends with the thread that started it.
        let thread = thread::spawn(move || {
            let process = Arc::new(Mutex::new(spawn(&folder, network)));
            let sent = started.send(Arc::clone(&process));
            sent.expect("the caller waits for it");
            while !ending.load(Relaxed) {
                let mut process = lock(&process);
                if process.ended().is_some() {
                    *process = spawn(&folder, network);
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

impl Drop for Switch {
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

fn spawn(folder: &Path, network: u32) -> Process {
    let args = [
        format!("--target={network}"),
        "--net".to_owned(),
        "--".to_owned(),
        ovn::program("ovs-vswitchd").display().to_string(),
        "--disable-system".to_owned(),
        "--no-chdir".to_owned(),
        format!("--unixctl={}", control(folder, "vswitchd")),
        socket(folder, "conf"),
    ];
    start(folder, "ovs-vswitchd", Path::new("nsenter"), &args)
}

//! Processors that do not sleep while something is measured.
//!
//! A virtual processor with nothing to do goes back to its host, which may take longer to return it than the server takes for a
//! change, and each time another while. Client and server wait for each other all the time, so that figures tell more of the host
//! than of either.

use std::{path::Path, thread::available_parallelism};

use tests::{process::Process, workdir::Workdir};

/// A loop for each processor, which gives way to everything else (SCHED_IDLE, sched(7)).
pub(crate) struct Awake {
    _loops: Vec<Process>,
    _workdir: Workdir,
}

impl Awake {
    pub(crate) fn keep() -> Self {
        let workdir = Workdir::transient();
        let endless = |n| {
            let args = ["--idle", "0", "sh", "-c", "while :; do :; done"];
            let name = format!("awake{n}");
            Process::start(workdir.path(), &name, Path::new("chrt"), args, &[])
        };
        let processors = available_parallelism().map_or(1, usize::from);
        Self {
            _loops: (0..processors).map(endless).collect(),
            _workdir: workdir,
        }
    }
}

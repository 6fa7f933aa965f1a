//! A server process that ends when its value does.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually_within;

/// The time-out for the end of a program; a test may demand less.
const END: Duration = Duration::from_secs(30);

/// A running server. Its output goes to a log file; a restart of the same server appends to it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    log_start: u64,
}

impl Process {
    /// Starts a program in the folder, with `NAME.log` for its output.
    ///
    /// It is killed with the thread that calls this, so that no process remains even if the test itself is killed. It
    /// has a process group of its own, so that Ctrl-C reaches only the caller, which then ends it in order.
    pub fn start<A: AsRef<OsStr>>(
        folder: &Path,
        name: &str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        environment: &[(&str, String)],
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log file");
        let log_start = file.seek(SeekFrom::End(0)).expect("the log's end");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle of the log"))
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
            log_start,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory now, and its peak, in bytes (proc_pid_status(5)).
    ///
    /// # Panics
    /// If it has ended.
    pub fn memory(&self) -> [u64; 2] {
        memory(self.pid())
    }

    /// The log of this process so far.
    pub fn log(&self) -> String {
        let mut bytes = Vec::new();
        let mut file = File::open(&self.log).expect("the log");
        file.seek(SeekFrom::Start(self.log_start))
            .expect("its part");
        file.read_to_end(&mut bytes).expect("the log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    /// `kill -9`; returns when it is gone.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("cannot signal {}: {error}", self.name));
    }

    /// Sends SIGTERM; returns the exit status.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait().await
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn wait(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        eventually_within(END, &what, async || {
            self.ended().ok_or_else(|| "it runs".to_owned())
        })
        .await
    }
}

/// [`Process::memory`] of any process.
///
/// # Panics
/// If it has ended.
pub fn memory(pid: u32) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process that runs");
    ["VmRSS:", "VmHWM:"].map(|name| {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.expect("a number of kB") << 10
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let ended = self.child.wait().map(|status| status.to_string());
        let ended = ended.unwrap_or_else(|error| error.to_string());
        if let Ok(mut log) = OpenOptions::new().append(true).open(&self.log) {
            let _ = writeln!(
                log,
                "[{} {} has ended: {ended}]",
                self.name,
                self.child.id()
            );
        }
    }
}

//! The commands of Open vSwitch, and the processes around it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{ovn, ovsdb_server::run, process::Process, wait::eventually};

/// A process that holds a network of its own open.
pub(super) async fn start_network(folder: &Path, name: &str) -> Process {
    let args = ["--net", "--", "sleep", "infinity"];
    let process = Process::start(folder, name, Path::new("unshare"), args, &[]);
    let (pid, own) = (process.pid().to_string(), namespace("self"));
    eventually("it has a network of its own", async || {
        let is_apart = namespace(&pid) != own;
        is_apart
            .then_some(())
            .ok_or_else(|| "it has not".to_owned())
    })
    .await;
    process
}

/// Starts a program with its folders in this one.
pub(super) fn start(folder: &Path, name: &str, program: &Path, args: &[String]) -> Process {
    let environment = ["OVN_RUNDIR", "OVS_RUNDIR", "OVN_DBDIR", "OVS_DBDIR"]
        .map(|name| (name, folder.display().to_string()));
    Process::start(folder, name, program, args, &environment)
}

pub(super) fn socket(folder: &Path, name: &str) -> String {
    format!("unix:{}", folder.join(format!("{name}.sock")).display())
}

pub(super) fn control(folder: &Path, name: &str) -> String {
    folder.join(format!("{name}.ctl")).display().to_string()
}

/// The network of a process.
fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Runs a program in the network of a process.
pub(super) fn inside(pid: u32, program: &str, args: &[&str]) {
    let pid = pid.to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid, "--net", "--", program]);
    let done = run(command.args(args));
    assert!(done.is_ok(), "{command:?}: {done:?}");
}

/// Runs `ovs-vsctl` with the words of a line.
pub(super) fn vsctl(folder: &Path, line: &str) -> Result<String, String> {
    let mut command = Command::new(ovn::program("ovs-vsctl"));
    command.arg("--timeout=30");
    command.arg(format!("--db={}", socket(folder, "conf")));
    run(command.args(line.split(' ')))
}

//! `ovn-nbctl` in daemon mode (ovn-nbctl(8)): the daemon keeps the database, and each command is a short process.

use std::{
    fs,
    net::IpAddr,
    process::Command,
    time::{Duration, Instant},
};

use tests::{cpu_time, ovn};

use crate::writer::Server;

pub(crate) struct NbctlDaemon {
    socket: String,
    /// The daemon.
    pub(crate) pid: u32,
}

impl NbctlDaemon {
    pub(crate) fn start(server: &Server) -> Self {
        let path = |name: &str| server.workdir.join(name).display().to_string();
        let output = Command::new(ovn::program("ovn-nbctl"))
            .args(["--detach", "--no-leader-only"])
            .arg(format!("--pidfile={}", path("nbctl.pid")))
            .arg(format!("--unixctl={}", path("nbctl.ctl")))
            .arg(format!("--db={}", server.remote()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let socket = String::from_utf8(output.stdout).unwrap();
        let pid = fs::read_to_string(path("nbctl.pid")).unwrap();
        Self {
            socket: socket.trim().to_owned(),
            pid: pid.trim().parse().unwrap(),
        }
    }

    /// Adds an address to a row, and returns the time.
    pub(crate) fn add(&self, uuid: &str, address: IpAddr) -> Duration {
        let quoted = format!("\"{address}\"");
        let start = Instant::now();
        let status = Command::new(ovn::program("ovn-nbctl"))
            .env("OVN_NB_DAEMON", &self.socket)
            .args(["add", "Address_Set", uuid, "addresses", &quoted])
            .status()
            .unwrap();
        let took = start.elapsed();
        assert!(status.success());
        took
    }

    /// The CPU time of the daemon and of the commands so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        cpu_time::of_threads(self.pid) + cpu_time::of_ended_children()
    }
}

impl Drop for NbctlDaemon {
    fn drop(&mut self) {
        let mut command = Command::new(ovn::program("ovs-appctl"));
        let status = command.args(["-t", &self.socket, "exit"]).status();
        assert!(
            status.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "ovn-nbctl does not end"
        );
    }
}

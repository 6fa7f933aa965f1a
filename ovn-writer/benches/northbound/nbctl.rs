//! `ovn-nbctl` in daemon mode (ovn-nbctl(8)): the daemon keeps the database, and each command is a short process.

use std::{
    net::IpAddr,
    process::Command,
    time::{Duration, Instant},
};

use tests::ovn;

use crate::writer::Server;

pub(crate) struct NbctlDaemon {
    socket: String,
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
        Self {
            socket: socket.trim().to_owned(),
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

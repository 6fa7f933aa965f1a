//! A server in a network of its own, whose cable can be pulled: what is sent then is lost, and nobody is told.

use std::{fs, path::Path, process::Command};

use tests::{process::Process, wait::eventually};

use crate::server::{port, run, serve};

/// The interface inside.
const INSIDE: &str = "eth0";

/// The server, in a network namespace that lives as long as it does.
pub(crate) struct Apart {
    process: Process,
    address: String,
    port: u16,
}

impl Apart {
    /// Starts the server of `NAME.db`; `None` without the right to make networks, which only root has.
    pub(crate) async fn start(folder: &Path, name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tried: only root can make networks");
            return None;
        }
        let before = ["--net", "--", "ovsdb-server"];
        let options = ["--remote=ptcp:0:0.0.0.0".to_owned()];
        let process = serve(Path::new("unshare"), &before, folder, name, &options);
        let port = port(&process).await;
        let pid = process.pid();
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
        assert_ne!(network(&pid.to_string()).unwrap(), network("self").unwrap());
        // A network of two addresses for each process, of those that are set apart for tests of networks (RFC 2544).
        let pair = (pid % (1 << 15)) * 4;
        let address = |n| {
            format!(
                "198.{}.{}.{}",
                18 + (pair >> 16),
                pair >> 8 & 255,
                (pair & 255) + n
            )
        };
        let (outside, id) = (format!("eg{pid}"), pid.to_string());
        let ip = |args: &[&str]| run(Command::new("ip").args(args)).unwrap();
        ip(&[
            "link", "add", &outside, "type", "veth", "peer", "name", INSIDE, "netns", &id,
        ]);
        ip(&[
            "addr",
            "add",
            &format!("{}/30", address(1)),
            "dev",
            &outside,
        ]);
        ip(&["link", "set", &outside, "up"]);
        let apart = Self {
            process,
            address: address(2),
            port,
        };
        apart.inside(&["addr", "add", &format!("{}/30", address(2)), "dev", INSIDE]);
        apart.plug(true);
        Some(apart)
    }

    pub(crate) fn remote(&self) -> String {
        format!("tcp:{}:{}", self.address, self.port)
    }

    /// Pulls the cable, or plugs it in.
    pub(crate) fn plug(&self, on: bool) {
        self.inside(&["link", "set", INSIDE, if on { "up" } else { "down" }]);
    }

    /// Waits until the network works.
    pub(crate) async fn reachable(&self) {
        eventually("the server can be reached", async || {
            let address = (self.address.as_str(), self.port);
            let stream = tokio::net::TcpStream::connect(address).await;
            stream.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    fn inside(&self, args: &[&str]) {
        let pid = self.process.pid().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--", "ip"]);
        run(command.args(args)).unwrap();
    }
}

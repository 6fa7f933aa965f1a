//! A separate network.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::Command,
};

use crate::{process::Process, skip, wait::eventually};

/// The interface inside.
const INSIDE: &str = "eth0";

/// A network namespace with one link to this one. It lasts as long as the value, and the processes that were started in
/// it.
#[derive(Debug)]
pub struct Network {
    holder: Process,
    pair: u32,
}

impl Network {
    /// Creates a network.
    ///
    /// # Errors
    /// The reason, if this process may not create networks: usually only root may.
    pub async fn new(folder: &Path) -> Result<Self, String> {
        skip::needs(&["unshare", "--net", "true"])?;
        let sleep = ["--net", "--", "sleep", "infinity"];
        let holder = Process::start(folder, "network", Path::new("unshare"), sleep, &[]);
        let pid = holder.pid();
        let own = std::fs::read_link("/proc/self/ns/net").expect("its own network");
        eventually("the network is apart", async || {
            match std::fs::read_link(format!("/proc/{pid}/ns/net")) {
                Ok(network) if network != own => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let network = Self {
            holder,
            pair: (pid % (1 << 15)) * 4,
        };
        let (cable, id) = (format!("eg{pid}"), pid.to_string());
        ip(&[
            "link", "add", &cable, "type", "veth", "peer", "name", INSIDE, "netns", &id,
        ]);
        let with_mask = |address: IpAddr| format!("{address}/30");
        ip(&["addr", "add", &with_mask(network.outside()), "dev", &cable]);
        ip(&["link", "set", &cable, "up"]);
        network.ip_inside(&["addr", "add", &with_mask(network.inside()), "dev", INSIDE]);
        network.ip_inside(&["link", "set", "lo", "up"]);
        network.ip_inside(&["link", "set", INSIDE, "up"]);
        Ok(network)
    }

    /// The address of the outer end of the link.
    pub fn outside(&self) -> IpAddr {
        self.address(1)
    }

    /// The address of the inner end.
    pub fn inside(&self) -> IpAddr {
        self.address(2)
    }

    /// The process that holds it open.
    pub fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// The command prefix to run a program inside.
    pub fn enter(&self) -> Vec<String> {
        let pid = self.pid().to_string();
        let words = ["nsenter", "--target", &pid, "--net", "--"];
        words.map(str::to_owned).to_vec()
    }

    fn ip_inside(&self, args: &[&str]) {
        let enter = self.enter();
        let enter = enter.iter().map(String::as_str);
        let words: Vec<_> = enter.chain(["ip"]).chain(args.iter().copied()).collect();
        run(&words);
    }

    /// A network of two addresses for each process, from the range for network tests (RFC 2544).
    fn address(&self, number: u32) -> IpAddr {
        let first = Ipv4Addr::new(198, 18, 0, 0).to_bits();
        Ipv4Addr::from_bits(first + self.pair + number).into()
    }
}

fn ip(args: &[&str]) {
    run(&[&["ip"], args].concat());
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.expect("it can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
}

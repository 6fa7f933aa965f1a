//! A network of pods whose packets OVN passes or drops: `ovn-northd`, `ovn-controller` and Open vSwitch in user space
//! (the `netdev` datapath), around a northbound database.
//!
//! Everything is in unnamed network namespaces: one for the switch and one for each pod. They end with the processes
//! that hold them open. Creating them needs root.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use hickory_proto::rr::RecordType;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Builder;

use crate::{
    dns::{Reply, ask},
    northbound::Northbound,
    process::Process,
    skip,
    wait::eventually,
};

/// The logical switch that all pods are on.
pub const SWITCH: &str = "pods";

/// A pod's end of its link.
const LINK: &str = "pod0";

/// The time-out of a connection. A dropped connection fails after this time.
const CONNECT: Duration = Duration::from_millis(500);

/// The switch and its controllers. Fields are in the order in which they are dropped.
#[derive(Debug)]
pub struct Datapath {
    pods: Vec<Process>,
    controller: Process,
    northd: Process,
    vswitchd: Process,
    /// Holds the switch's network open.
    network: Process,
    _databases: [Process; 2],
    folder: PathBuf,
    /// The number of hosts on the switch.
    ports: u8,
}

/// A host on the switch, with its addresses. It ends with the [`Datapath`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pod {
    /// The process that holds its network open.
    pid: u32,
}

impl Datapath {
    /// Starts everything on the northbound database in the folder.
    ///
    /// # Errors
    /// The reason, if this process may not create networks: usually only root may.
    pub async fn start(folder: &Path, northbound: &Northbound) -> Result<Self, String> {
        skip::needs(&["unshare", "--net", "true"])?;
        let databases = [
            ("sb", "/usr/share/ovn/ovn-sb.ovsschema"),
            ("conf", "/usr/share/openvswitch/vswitch.ovsschema"),
        ]
        .map(|(name, schema)| {
            let database = folder.join(format!("{name}.db")).display().to_string();
            run(Command::new("ovsdb-tool").args(["create", &database, schema]));
            let args = [
                database,
                format!("--remote=p{}", socket(folder, name)),
                format!("--unixctl={}", control(folder, name)),
                "--no-chdir".to_owned(),
            ];
            start(
                folder,
                &format!("ovsdb-server-{name}"),
                "ovsdb-server",
                &args,
            )
        });
        eventually("the local database answers", async || {
            vsctl(folder, &["--no-wait", "init"])
        })
        .await;
        let remote = format!("external_ids:ovn-remote=\"{}\"", socket(folder, "sb"));
        let settings = [
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            "external_ids:system-id=here",
            &remote,
            "external_ids:ovn-encap-type=geneve",
            "external_ids:ovn-encap-ip=127.0.0.1",
            "external_ids:ovn-bridge-datapath-type=netdev",
            // A starting ovn-controller clears all flows before it has new ones, unless it waits for them.
            "external_ids:ovn-ofctrl-wait-before-clear=2000",
        ];
        vsctl(folder, &settings).expect("the local database is set");
        let network = start_network(folder, "switch").await;
        let vswitchd = start_switch(folder, network.pid());
        let northd = start_northd(folder, northbound);
        let controller = start_controller(folder);
        northbound
            .nbctl(&["ls-add", SWITCH])
            .expect("a logical switch");
        eventually("ovn-controller makes its bridge", async || {
            vsctl(folder, &["br-exists", "br-int"])
        })
        .await;
        Ok(Self {
            pods: Vec::new(),
            controller,
            northd,
            vswitchd,
            network,
            _databases: databases,
            folder: folder.to_owned(),
            ports: 0,
        })
    }

    /// Kills `ovn-northd` and starts it again.
    pub fn restart_northd(&mut self, northbound: &Northbound) {
        self.northd.kill();
        self.northd = start_northd(&self.folder, northbound);
    }

    /// Kills `ovn-controller` and starts it again. Its flows stay in the switch until it has computed them again.
    pub fn restart_controller(&mut self) {
        self.controller.kill();
        self.controller = start_controller(&self.folder);
    }

    /// Ends `ovs-vswitchd` and starts it again, as `ovs-ctl restart` does: it forwards nothing until it has its old
    /// flows back. The user-space datapath ends with it, so there is no forwarding meanwhile.
    pub async fn restart_switch(&mut self) {
        let folder = &self.folder;
        let dumped = |what: &str| {
            let dumped = ofctl(folder, &[what, "--no-names", "--no-stats"]);
            let lines = dumped.expect("what the switch was told");
            // The first line may be a heading.
            let lines: Vec<_> = lines
                .lines()
                .filter(|line| !line.starts_with("OFPST_"))
                .map(str::trim)
                .collect();
            let file = folder.join(what);
            fs::write(&file, lines.join("\n")).expect("a file of it");
            file.display().to_string()
        };
        let (groups, flows) = (dumped("dump-groups"), dumped("dump-flows"));
        let options = tunnel_options(folder).expect("the options of its tunnels");

        let control = control(folder, "vswitchd");
        run(Command::new("ovs-appctl").args(["-t", &control, "exit"]));
        self.vswitchd.wait().await;
        let waits = "other_config:flow-restore-wait=true";
        vsctl(folder, &["--no-wait", "set", "Open_vSwitch", ".", waits]).expect("it will wait");
        self.vswitchd = start_switch(folder, self.network.pid());
        eventually("the switch knows the options of its tunnels", async || {
            // ovn-controller may be back first.
            if tunnel_options(folder)? != options {
                ofctl(folder, &["add-tlv-map", &options.join(",")])?;
            }
            Ok::<_, String>(())
        })
        .await;
        for told in [
            ["add-groups", &groups, "--bundle"],
            ["replace-flows", &flows, "--bundle"],
        ] {
            ofctl(folder, &told).expect("it is told all of it");
        }
        let waited = [
            "remove",
            "Open_vSwitch",
            ".",
            "other_config",
            "flow-restore-wait",
        ];
        vsctl(folder, &waited).expect("it forwards");
    }

    /// Kills `ovs-vswitchd` and starts it again. It forwards nothing until `ovn-controller` has sent all flows again.
    pub fn kill_switch(&mut self) {
        self.vswitchd.kill();
        self.vswitchd = start_switch(&self.folder, self.network.pid());
    }

    /// Adds a host with these addresses, on the same link as all others, and waits until its port is up. Its logical
    /// port has this name, of at most 8 characters.
    pub async fn pod(
        &mut self,
        northbound: &Northbound,
        name: &str,
        addresses: &[Ipv4Addr],
    ) -> Pod {
        let process = start_network(&self.folder, name).await;
        let pid = process.pid();
        self.pods.push(process);
        self.attach(northbound, name, pid, addresses).await
    }

    /// [`Datapath::pod`] in the network of a process. It lasts as long as that process.
    pub async fn attach(
        &mut self,
        northbound: &Northbound,
        name: &str,
        pid: u32,
        addresses: &[Ipv4Addr],
    ) -> Pod {
        let (switch, pod) = (self.network.pid(), Pod { pid });
        self.ports += 1;
        let mac = format!("02:00:00:00:00:{:02x}", self.ports);
        let (cable, pid) = (format!("veth-{name}"), pid.to_string());
        let ip = |pid: u32, args: &[&str]| inside(pid, "ip", args);
        ip(
            switch,
            &[
                "link", "add", &cable, "type", "veth", "peer", "name", LINK, "netns", &pid,
            ],
        );
        ip(switch, &["link", "set", &cable, "up"]);
        for address in addresses {
            let address = address.to_string();
            ip(pod.pid, &["addr", "add", &address, "dev", LINK]);
        }
        ip(pod.pid, &["link", "set", LINK, "address", &mac, "up"]);
        ip(pod.pid, &["route", "add", "default", "dev", LINK]);
        // There is no hardware to fill in checksums.
        inside(pod.pid, "ethtool", &["-K", LINK, "tx", "off"]);

        let texts = addresses.iter().map(Ipv4Addr::to_string);
        let texts: Vec<_> = std::iter::once(mac).chain(texts).collect();
        northbound
            .nbctl(&[
                "lsp-add",
                SWITCH,
                name,
                "--",
                "lsp-set-addresses",
                name,
                &texts.join(" "),
            ])
            .expect("a logical port");
        let id = format!("external_ids:iface-id={name}");
        vsctl(
            &self.folder,
            &[
                "add-port",
                "br-int",
                &cable,
                "--",
                "set",
                "Interface",
                &cable,
                &id,
            ],
        )
        .expect("a port");
        eventually(&format!("the port of {name} is up"), async || {
            let up = northbound.nbctl(&["lsp-get-up", name])?;
            (up == "up").then_some(()).ok_or(up)
        })
        .await;
        pod
    }
}

impl Pod {
    /// Accepts connections on this port of all addresses, and closes each at once, until the test ends.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn serve(self, port: u16) {
        let listener = self
            .enter(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .expect("a port to listen on");
        // A socket stays in the network in which it was created.
        thread::spawn(move || listener.incoming().for_each(drop));
    }

    /// Accepts connections on this port of all addresses and echoes their data, until the test ends.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn echo(self, port: u16) {
        let listener = self
            .enter(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .expect("a port to listen on");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
    }

    /// Makes all addresses of a network local to the pod.
    pub fn owns(self, network: &str) {
        inside(
            self.pid,
            "ip",
            &["route", "add", "local", network, "dev", LINK],
        );
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the packets are dropped.
    pub fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        self.connect_within(to, CONNECT)
    }

    /// [`Pod::connect`] with another time-out. The first packet is sent again after a second.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the packets are dropped.
    pub fn connect_within(self, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
        self.enter(move || TcpStream::connect_timeout(&to, patience))
    }

    /// How many first packets of its connections were retransmitted: after a second without an answer.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn sent_again(self) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/net/netstat", self.pid))?;
        // Two lines each: the names, and the numbers.
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt: "));
        let (names, numbers) = (lines.next(), lines.next());
        let mut counters = names.into_iter().flat_map(str::split_whitespace);
        let place = counters.position(|name| name == "TCPSynRetrans");
        let mut numbers = numbers.into_iter().flat_map(str::split_whitespace);
        let number = place.and_then(|place| numbers.nth(place)?.parse().ok());
        number.ok_or_else(|| io::Error::other("no TCPSynRetrans"))
    }

    /// Sends a DNS server a query for the IPv4 addresses of a name.
    ///
    /// # Errors
    /// As [`ask`].
    pub fn look_up(self, server: SocketAddr, name: &str) -> io::Result<Reply> {
        self.enter(move || {
            let mut runtime = Builder::new_current_thread();
            let runtime = runtime.enable_all().build()?;
            runtime.block_on(ask(server, name, RecordType::A))
        })
    }

    fn enter<T: Send>(self, call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let network = File::open(format!("/proc/{}/ns/net", self.pid))?;
        // A thread of its own, since a thread is in one network only.
        thread::scope(|scope| {
            let called = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(network.as_fd(), kind)?;
                call()
            });
            called.join().expect("no panic")
        })
    }
}

/// A process that holds a network of its own open.
async fn start_network(folder: &Path, name: &str) -> Process {
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

/// Starts the switch in a network with the interfaces of the bridge and one end of each pod's link; the network
/// outlasts it.
fn start_switch(folder: &Path, network: u32) -> Process {
    let args = [
        format!("--target={network}"),
        "--net".to_owned(),
        "--".to_owned(),
        "ovs-vswitchd".to_owned(),
        "--disable-system".to_owned(),
        "--no-chdir".to_owned(),
        format!("--unixctl={}", control(folder, "vswitchd")),
        socket(folder, "conf"),
    ];
    start(folder, "ovs-vswitchd", "nsenter", &args)
}

fn start_northd(folder: &Path, northbound: &Northbound) -> Process {
    let args = [
        format!("--ovnnb-db={}", northbound.remote()),
        format!("--ovnsb-db={}", socket(folder, "sb")),
        format!("--unixctl={}", control(folder, "northd")),
    ];
    start(folder, "ovn-northd", "ovn-northd", &args)
}

fn start_controller(folder: &Path) -> Process {
    let args = [socket(folder, "conf")];
    start(folder, "ovn-controller", "ovn-controller", &args)
}

fn start(folder: &Path, name: &str, program: &str, args: &[String]) -> Process {
    let environment = ["OVN_RUNDIR", "OVS_RUNDIR", "OVN_DBDIR", "OVS_DBDIR"]
        .map(|name| (name, folder.display().to_string()));
    Process::start(folder, name, Path::new(program), args, &environment)
}

fn socket(folder: &Path, name: &str) -> String {
    format!("unix:{}", folder.join(format!("{name}.sock")).display())
}

fn control(folder: &Path, name: &str) -> String {
    folder.join(format!("{name}.ctl")).display().to_string()
}

/// The network of a process.
fn namespace(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Runs a program in the network of a process.
fn inside(pid: u32, program: &str, args: &[&str]) {
    let pid = pid.to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid, "--net", "--", program]);
    run(command.args(args));
}

fn vsctl(folder: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("ovs-vsctl");
    command.arg("--timeout=30");
    command.arg(format!("--db={}", socket(folder, "conf")));
    said(command.args(args))
}

/// Sends the bridge an OpenFlow command.
fn ofctl(folder: &Path, args: &[&str]) -> Result<String, String> {
    let bridge = format!("unix:{}", folder.join("br-int.mgmt").display());
    let mut command = Command::new("ovs-ofctl");
    command.args(["--protocols=OpenFlow15", "--timeout=30"]);
    let (what, more) = args.split_first().expect("something to tell");
    said(command.arg(what).arg(bridge).args(more))
}

/// The options of tunnels.
fn tunnel_options(folder: &Path) -> Result<Vec<String>, String> {
    let map = ofctl(folder, &["dump-tlv-map"])?;
    let option = |line: &str| match *line.split_whitespace().collect::<Vec<_>>() {
        [class, kind, length, field] if class.starts_with("0x") => Some(format!(
            "{{class={class},type={kind},len={length}}}->{field}"
        )),
        _ => None,
    };
    Ok(map.lines().filter_map(option).collect())
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

fn run(command: &mut Command) {
    let said = said(command);
    assert!(said.is_ok(), "{command:?}: {said:?}");
}

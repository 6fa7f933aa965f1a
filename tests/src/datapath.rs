//! A network of pods whose packets OVN passes or drops: `ovn-northd`, `ovn-controller` and Open vSwitch in user space
//! (the `netdev` datapath), around a northbound database.
//!
//! The logical network is that of a node of ovn-kubernetes: `topology`. A packet from a pod to the
//! outside passes the node switch with the ACLs (`egress_firewall`). Then it passes the cluster router, the join switch,
//! the gateway router, and a bridge.
//!
//! Everything is in unnamed network namespaces: one for the switch, one for each pod, and one for the outside. They end
//! with the processes that hold them open. Creating them needs root.

mod commands;
mod daemon;
mod egress_firewall;
mod pod;
mod topology;

use std::path::{Path, PathBuf};

use self::{
    commands::{control, inside, socket, start, start_network, vsctl},
    daemon::Daemon,
    pod::LINK,
    topology::{CHASSIS, CLUSTER, GATEWAY, NODE, OUTSIDE, PHYSICAL, ROUTER, port_addresses},
};
pub use self::{
    egress_firewall::{
        create_namespace, create_others, create_sets, set_egress_firewall, set_rules,
    },
    pod::Pod,
    topology::pod_addresses,
};
use crate::{
    northbound::Northbound,
    ovn,
    ovsdb_server::{OvsdbServer, create},
    process::Process,
    skip,
    wait::eventually,
};

/// The options of a bridge in user space.
const IN_USER_SPACE: &str = "datapath_type=netdev";

/// The switch and its controllers. Fields are in the order in which they are dropped.
#[derive(Debug)]
pub struct Datapath {
    hosts: Vec<Process>,
    _controller: Daemon,
    _northd: Process,
    _vswitchd: Daemon,
    /// Holds the switch's network open.
    network: Process,
    _databases: [OvsdbServer; 2],
    folder: PathBuf,
    /// The servers outside of the cluster.
    outside: Pod,
}

impl Datapath {
    /// Starts everything on the northbound database in the folder.
    ///
    /// # Errors
    /// The reason, if this process may not create networks: usually only root may.
    pub async fn start(folder: &Path, northbound: &Northbound) -> Result<Self, String> {
        skip::needs(&["unshare", "--net", "true"])?;
        create(folder, "sb", "ovn/ovn-sb.ovsschema");
        create(folder, "conf", "openvswitch/vswitch.ovsschema");
        let southbound = OvsdbServer::start(folder, "sb", &[]).await;
        let local = OvsdbServer::start(folder, "conf", &[]).await;
        vsctl(folder, "--no-wait init").expect("the local database is begun");
        // As in ovn-kubernetes, all is monitored. A starting ovn-controller clears all flows before it has new ones, unless it
        // waits for them.
        let settings = format!(
            "--no-wait set Open_vSwitch . external_ids:system-id={CHASSIS} external_ids:ovn-remote=\"{}\" \
             external_ids:ovn-bridge-mappings={} external_ids:ovn-encap-type=geneve external_ids:ovn-encap-ip=127.0.0.1 \
             external_ids:ovn-bridge-datapath-type=netdev external_ids:ovn-monitor-all=true \
             external_ids:ovn-ofctrl-wait-before-clear=2000",
            southbound.remote(),
            PHYSICAL.join(":"),
        );
        vsctl(folder, &settings).expect("the local database is set");
        let [_, bridge] = PHYSICAL;
        let bridge = format!("--no-wait add-br {bridge} -- set Bridge {bridge} {IN_USER_SPACE}");
        vsctl(folder, &bridge).expect("a bridge to the outside");
        let network = start_network(folder, "switch").await;
        let vswitchd = start_vswitchd(folder, network.pid());
        let northd = start_northd(folder, northbound);
        let controller = start_controller(folder);
        topology::create(northbound);
        egress_firewall::create_of_node(northbound);
        eventually("ovn-controller makes its bridge", async || {
            vsctl(folder, "br-exists br-int")
        })
        .await;
        let (host, outside) = start_outside(folder, network.pid()).await;
        Ok(Self {
            hosts: vec![host],
            _controller: controller,
            _northd: northd,
            _vswitchd: vswitchd,
            network,
            _databases: [southbound, local],
            folder: folder.to_owned(),
            outside,
        })
    }

    /// The host outside of the cluster, with all servers.
    pub fn outside(&self) -> Pod {
        self.outside
    }

    /// Adds a pod of a namespace to the node, and waits until its port is up. It has the [addresses](pod_addresses) of
    /// this number, which is from 3 to 99. The name has at most 8 characters.
    pub async fn pod(
        &mut self,
        northbound: &Northbound,
        namespace: &str,
        name: &str,
        number: u8,
    ) -> Pod {
        let process = start_network(&self.folder, name).await;
        let pid = process.pid();
        self.hosts.push(process);
        let pod = self.attach(northbound, name, pid, number).await;
        egress_firewall::add_port(northbound, namespace, name);
        pod
    }

    /// Makes the network of a process a pod of no namespace. It lasts as long as that process.
    pub async fn attach(
        &mut self,
        northbound: &Northbound,
        name: &str,
        pid: u32,
        number: u8,
    ) -> Pod {
        let pod = Pod { pid };
        let cable = cable(self.network.pid(), name, pod);
        let port = port_addresses(number);
        let [mac, v4, v6] = &port;
        pod.ip(&format!("addr add {v4}/24 dev {LINK}"));
        pod.ip(&format!("addr add {v6}/64 dev {LINK} nodad"));
        pod.ip(&format!("link set {LINK} address {mac} up"));
        for gateway in GATEWAY {
            pod.ip(&format!("route add default via {gateway} dev {LINK}"));
        }

        let addresses = port.join(" ");
        let add = ["lsp-add", NODE, name, "--", "lsp-set-addresses", name];
        let secure = [&addresses, "--", "lsp-set-port-security", name, &addresses];
        let added = northbound.nbctl(&[&add[..], &secure].concat());
        added.expect("a logical port");
        let id = format!("external_ids:iface-id={name}");
        let port = format!("add-port br-int {cable} -- set Interface {cable} {id}");
        vsctl(&self.folder, &port).expect("a port");
        eventually(&format!("the port of {name} is up"), async || {
            let up = northbound.nbctl(&["lsp-get-up", name])?;
            (up == "up").then_some(()).ok_or(up)
        })
        .await;
        pod
    }
}

/// Starts the host outside, on the bridge that leads there.
async fn start_outside(folder: &Path, switch: u32) -> (Process, Pod) {
    let process = start_network(folder, "outside").await;
    let pod = Pod { pid: process.pid() };
    let cable = cable(switch, "outside", pod);
    let [v4, v6] = OUTSIDE;
    // Servers listen on addresses of whole networks.
    let any = "echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind";
    inside(pod.pid, "sh", &["-c", any]);
    pod.ip("link set lo up");
    pod.ip(&format!("addr add {v4} dev {LINK}"));
    pod.ip(&format!("addr add {v6} dev {LINK} nodad"));
    pod.ip(&format!("link set {LINK} up"));
    for (cluster, router) in CLUSTER.into_iter().zip(ROUTER) {
        pod.ip(&format!("route add {cluster} via {router} dev {LINK}"));
    }
    let [_, bridge] = PHYSICAL;
    vsctl(folder, &format!("add-port {bridge} {cable}")).expect("a port");
    (process, pod)
}

/// Connects a host with the switch's network. Returns the switch's end.
fn cable(switch: u32, name: &str, pod: Pod) -> String {
    let (cable, pid) = (format!("veth-{name}"), pod.pid);
    let host = Pod { pid: switch };
    host.ip(&format!(
        "link add {cable} type veth peer name {LINK} netns {pid}"
    ));
    host.ip(&format!("link set {cable} up"));
    // There is no hardware to fill in checksums.
    inside(pod.pid, "ethtool", &["-K", LINK, "tx", "off"]);
    cable
}

fn start_northd(folder: &Path, northbound: &Northbound) -> Process {
    let args = [
        format!("--ovnnb-db={}", northbound.remote()),
        format!("--ovnsb-db={}", socket(folder, "sb")),
        format!("--unixctl={}", control(folder, "northd")),
    ];
    start(folder, "ovn-northd", &ovn::program("ovn-northd"), &args)
}

fn start_controller(folder: &Path) -> Daemon {
    let folder = folder.to_owned();
    Daemon::start(move || {
        let args = [socket(&folder, "conf")];
        let program = ovn::program("ovn-controller");
        start(&folder, "ovn-controller", &program, &args)
    })
}

/// Starts it in a network with the interfaces of the bridge and one end of each pod's link. The network outlasts it.
fn start_vswitchd(folder: &Path, network: u32) -> Daemon {
    let folder = folder.to_owned();
    Daemon::start(move || {
        let args = [
            format!("--target={network}"),
            "--net".to_owned(),
            "--".to_owned(),
            ovn::program("ovs-vswitchd").display().to_string(),
            "--disable-system".to_owned(),
            "--no-chdir".to_owned(),
            format!("--unixctl={}", control(&folder, "vswitchd")),
            socket(&folder, "conf"),
        ];
        start(&folder, "ovs-vswitchd", Path::new("nsenter"), &args)
    })
}

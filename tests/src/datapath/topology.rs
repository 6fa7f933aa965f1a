//! The logical network of one node, as ovn-kubernetes lays it with a shared gateway.
//!
//! Names, addresses and options are those of ovn-kubernetes at 8871cd9cec9c45d6da1baf9e3b06eb575f49039c. Below
//! `go-controller/pkg/ovn`, `topology/topologyfactory.go` has the cluster router and the join switch.
//! `base_network_controller.go` has the node switch, and `gateway.go` the gateway router with its routes and the
//! external switch. Left out are load balancers, multicast, control plane protection, and the ageing of neighbours.
//!
//! Pods keep their addresses outside, as in a network that is advertised (`isRoutingAdvertised`). With NAT, connection
//! tracking of Open vSwitch 3.1 in user space fails after some hundred connections (`assertion conn->conn_type ==
//! CT_CONN_TYPE_DEFAULT`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::northbound::Northbound;

/// The node, its logical switch, and the suffix of its gateway router.
pub(super) const NODE: &str = "node";

/// The chassis of the node.
pub(super) const CHASSIS: &str = "node";

/// The gateway router's own address outside.
pub(super) const ROUTER: [&str; 2] = ["172.18.0.2", "fc00:f853::2"];

/// The pods of the cluster, which rules for the outside exclude.
pub(super) const CLUSTER: [&str; 2] = ["10.128.0.0/14", "fd01::/48"];

/// The gateway of the pods.
pub(super) const GATEWAY: [&str; 2] = ["10.128.0.1", "fd01::1"];

/// The next hop of the gateway router, with the length of its network.
pub(super) const OUTSIDE: [&str; 2] = ["172.18.0.1/16", "fc00:f853::1/64"];

/// The name of the physical network and the bridge that leads to it.
pub(super) const PHYSICAL: [&str; 2] = ["physnet", "br-ex"];

/// One command of `ovn-nbctl` a line.
const TOPOLOGY: &str = "
lr-add ovn_cluster_router
set logical_router ovn_cluster_router external_ids:k8s-cluster-router=yes options:always_learn_from_arp_request=false
lrp-add ovn_cluster_router rtos-node 0a:58:0a:80:00:01 10.128.0.1/24 fd01::1/64
lrp-set-gateway-chassis rtos-node node 1
lrp-add ovn_cluster_router rtoj-ovn_cluster_router 0a:58:64:40:00:01 100.64.0.1/16 fd98::1/64
ls-add node
set logical_switch node other_config:subnet=10.128.0.0/24 other_config:exclude_ips=10.128.0.2 other_config:ipv6_prefix=fd01::
lsp-add node stor-node
lsp-set-type stor-node router
lsp-set-addresses stor-node router
lsp-set-options stor-node router-port=rtos-node
lsp-add node k8s-node
ls-add join
lsp-add join jtor-ovn_cluster_router
lsp-set-type jtor-ovn_cluster_router router
lsp-set-addresses jtor-ovn_cluster_router router
lsp-set-options jtor-ovn_cluster_router router-port=rtoj-ovn_cluster_router
lr-add GR_node
set logical_router GR_node options:always_learn_from_arp_request=false options:dynamic_neigh_routers=false
set logical_router GR_node options:chassis=node options:lb_force_snat_ip=router_ip options:snat-ct-zone=0
lrp-add GR_node rtoj-GR_node 0a:58:64:40:00:02 100.64.0.2/16 fd98::2/64
lsp-add join jtor-GR_node
lsp-set-type jtor-GR_node router
lsp-set-addresses jtor-GR_node router
lsp-set-options jtor-GR_node router-port=rtoj-GR_node
lrp-add GR_node rtoe-GR_node 02:00:00:00:01:02 172.18.0.2/16 fc00:f853::2/64
ls-add ext_node
lsp-add ext_node br-ex_node
lsp-set-type br-ex_node localnet
lsp-set-addresses br-ex_node unknown
lsp-set-options br-ex_node network_name=physnet
lsp-add ext_node etor-GR_node
lsp-set-type etor-GR_node router
lsp-set-addresses etor-GR_node 02:00:00:00:01:02
lsp-set-options etor-GR_node router-port=rtoe-GR_node nat-addresses=router exclude-lb-vips-from-garp=true
lr-route-add GR_node 10.128.0.0/14 100.64.0.1
lr-route-add GR_node fd01::/48 fd98::1
lr-route-add GR_node 0.0.0.0/0 172.18.0.1 rtoe-GR_node
lr-route-add GR_node ::/0 fc00:f853::1 rtoe-GR_node
lr-route-add ovn_cluster_router 100.64.0.2 100.64.0.2
lr-route-add ovn_cluster_router fd98::2 fd98::2
--policy=src-ip lr-route-add ovn_cluster_router 10.128.0.0/24 100.64.0.2
--policy=src-ip lr-route-add ovn_cluster_router fd01::/64 fd98::2
";

/// Creates it.
///
/// # Panics
/// If the database refuses it.
pub(super) fn create(northbound: &Northbound) {
    let commands = TOPOLOGY.trim().lines().map(str::split_whitespace);
    let commands: Vec<_> = commands.map(Iterator::collect::<Vec<_>>).collect();
    northbound
        .nbctl(&commands.join(&"--"))
        .expect("the logical network");
}

/// The addresses of the pod with this number on the node.
pub fn pod_addresses(number: u8) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, number.into());
    [Ipv4Addr::new(10, 128, 0, number).into(), v6.into()]
}

/// The addresses of the port of the pod with this number, as the northbound database has them.
pub(super) fn port_addresses(number: u8) -> [String; 3] {
    let [v4, v6] = pod_addresses(number).map(|address| address.to_string());
    [format!("0a:58:0a:80:00:{number:02x}"), v4, v6]
}

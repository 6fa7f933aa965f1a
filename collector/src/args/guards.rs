//! Addresses that no answer opens.

use ipnet::IpNet;

/// The flags of refused addresses.
#[derive(Clone, Debug, clap::Args)]
pub struct GuardArgs {
    /// Networks whose addresses are refused in answers; repeatable.
    ///
    /// Loopback, link-local, multicast and cloud metadata addresses and the like are always refused. In a cluster the addresses of the API
    /// server, Services, pods and Nodes are refused, too. The collector must be able to read them: EndpointSlices of default/kubernetes,
    /// ServiceCIDRs, Nodes, ClusterUserDefinedNetworks. The ovn-writer knows only the networks in its own flags. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub deny_answer: Vec<IpNet>,
}

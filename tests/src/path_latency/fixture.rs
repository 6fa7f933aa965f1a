//! CoreDNS, the programs, OVN and a pod, with an API server between the programs.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use hickory_proto::rr::RecordType;
use tokio::task::spawn_blocking;

use super::upstream::{Upstream, ZONE};
use crate::{
    coredns::CoreDns,
    datapath::{
        Datapath, Pod, create_namespace, create_others, pod_addresses, set_egress_firewall,
    },
    kube::ApiServer,
    network::Network,
    northbound::Northbound,
    programs::Program,
    workdir::Workdir,
};

/// The namespace of the pod.
const TEAM: &str = "team";

/// The numbers of the pods.
const POD: u8 = 5;
const DNS: u8 = 10;

/// How often the pod asks for a name, at most.
const TRIES: usize = 5;

/// The port of the echo server outside.
pub(super) const PORT: u16 = 7;

/// The network of all addresses of names.
const NETWORK: &str = "11.0.0.0/8";

const COREFILE: &str = "
.:{$DNS_PORT} {
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    forward ZONE UPSTREAM
}
";

/// Everything. Fields are in the order in which they are dropped.
pub(super) struct Fixture {
    coredns: CoreDns,
    _collector: Program,
    _ovn_writer: Program,
    pub(super) pod: Pod,
    pub(super) upstream: Upstream,
    /// For the changes of others.
    pub(super) northbound: Northbound,
    _network: Network,
    workdir: Workdir,
    _datapath: Datapath,
    _server: ApiServer,
}

impl Fixture {
    /// Starts it with an EgressFirewall that allows the pod only these names. Each name that is no wildcard has an
    /// address. An error is the reason why this process may not create networks.
    pub(super) async fn start(names: &[&str]) -> Result<Self, String> {
        let workdir = Workdir::transient();
        let network = Network::new(workdir.path()).await?;
        let northbound = Northbound::start(workdir.path()).await;
        let mut datapath = Datapath::start(workdir.path(), &northbound).await?;
        create_others(&northbound);
        create_namespace(&northbound, TEAM);
        let pod = datapath.pod(&northbound, TEAM, "pod", POD).await;
        let outside = datapath.outside();
        outside.owns(NETWORK);
        outside.echo_from_any_address(PORT);
        let dns = network.pid();
        datapath.attach(&northbound, "dns", dns, DNS).await;
        set_egress_firewall(&northbound, TEAM, names);

        let mut upstream = Upstream::start(network.outside()).await;
        for name in names.iter().filter(|name| !name.starts_with('*')) {
            upstream.give_new_address(name, super::LONG_TTL);
        }
        let corefile = COREFILE.replace("ZONE", ZONE);
        let corefile = corefile.replace("UPSTREAM", &upstream.server.address.to_string());
        fs::write(workdir.join("Corefile"), corefile).expect("a Corefile");

        let server = ApiServer::start().await;
        let namespace = server.namespace().await;
        server.make_namespace(TEAM).await;
        server.allow(TEAM, names).await;
        server
            .make_dns_service(&namespace, &[network.inside()])
            .await;
        let flags = vec![
            "--store=kube".to_owned(),
            format!("--objects-namespace={namespace}"),
        ];
        let kubeconfig = server.kubeconfig().display().to_string();
        let environment = vec![("KUBECONFIG", kubeconfig)];
        let unix = |name: &str| format!("unix://{}", workdir.join(name).display());
        let mut of_collector = flags.clone();
        of_collector.extend([
            "--resolver=kube".to_owned(),
            format!("--resolver-service={namespace}/dns"),
            format!("--listen={}", unix("dnstap.sock")),
            format!("--inspect={}", unix(COLLECTOR)),
            "--manage-objects=always".to_owned(),
            "--flush-probe=10ms".to_owned(),
        ]);
        let mut of_writer = flags;
        of_writer.extend([
            format!("--nb={}", northbound.remote()),
            format!("--inspect={}", unix(OVN_WRITER)),
        ]);
        let start =
            |name, args| Program::start_with(workdir.path(), name, args, environment.clone());
        let ovn_writer = start("ovn-writer", of_writer).await;
        let collector = start("collector", of_collector).await;
        collector.ready().await;
        ovn_writer.ready().await;
        let coredns = CoreDns::start_in(workdir.path(), &network).await;
        let streaming = ["state=\"streaming\""];
        collector
            .counts("egress_collector_dns_blocks", &streaming, 1.0)
            .await;
        Ok(Self {
            coredns,
            _collector: collector,
            _ovn_writer: ovn_writer,
            pod,
            upstream,
            northbound,
            _network: network,
            workdir,
            _datapath: datapath,
            _server: server,
        })
    }

    /// Asks CoreDNS from the pod, again if a datagram is lost. The collector has the address of this machine, and takes
    /// a query from there for its own if a socket of its own had the same port just before.
    pub(super) async fn ask(&self, name: &str) -> Vec<IpAddr> {
        let (pod, dns, asked) = (self.pod, self.dns_of_pod(), name.to_owned());
        let asking = spawn_blocking(move || {
            for _ in 1..TRIES {
                if let Ok(reply) = pod.look_up(dns, &asked, RecordType::A) {
                    return Ok(reply);
                }
            }
            pod.look_up(dns, &asked, RecordType::A)
        });
        let reply = asking.await.expect("no panic").expect("CoreDNS replies");
        reply.addresses()
    }

    /// CoreDNS, for the pod. The way there passes the switch.
    pub(super) fn dns_of_pod(&self) -> SocketAddr {
        let [dns, _] = pod_addresses(DNS);
        SocketAddr::from((dns, self.coredns.address().port()))
    }

    /// The sockets of `--inspect` of the collector and of the ovn-writer.
    pub(super) fn inspect_sockets(&self) -> [PathBuf; 2] {
        [COLLECTOR, OVN_WRITER].map(|name| self.workdir.join(name))
    }
}

const COLLECTOR: &str = "inspect-collector.sock";
const OVN_WRITER: &str = "inspect-ovn-writer.sock";

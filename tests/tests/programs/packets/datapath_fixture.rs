//! A stock CoreDNS on the pods' network, a pod with an EgressFirewall, and the programs between the two.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
};

use hickory_proto::rr::RecordType;
use tests::{
    coredns::{self, CoreDns},
    datapath::{
        Datapath, Pod, create_namespace, create_others, pod_addresses, set_egress_firewall,
    },
    network::Network,
    northbound::Northbound,
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::{start_collector, start_ovn_writer},
};

/// The namespace of the pod.
pub(crate) const TEAM: &str = "team";

/// The numbers of the pods.
pub(crate) const POD: u8 = 5;
pub(crate) const DNS: u8 = 10;

/// The port of every server outside.
pub(crate) const PORT: u16 = 443;

/// The servers outside have all addresses of these networks.
const NETWORKS: [&str; 3] = ["192.0.2.0/24", "198.51.0.0/16", "2001:db8::/64"];

/// `example.com` is a file; `f3-7.w.example.com` has the address 198.51.3.7.
const COREFILE: &str = r#".:{$DNS_PORT} {
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    template IN A w.example.com {
        match ^f([0-9]+)-([0-9]+)[.]
        answer "{{ .Name }} 300 IN A 198.51.{{ index .Match 1 }}.{{ index .Match 2 }}"
        fallthrough
    }
    file example.com.zone example.com {
        reload 1s
    }
    FORWARD
}
"#;

/// Fields are in the order in which they are dropped.
pub(crate) struct DatapathFixture {
    pub(crate) coredns: CoreDns,
    pub(crate) collector: Program,
    pub(crate) ovn_writer: Program,
    _datapath: Datapath,
    pub(crate) pod: Pod,
    pub(crate) northbound: Northbound,
    pub(crate) store: Store,
    _network: Network,
    pub(crate) workdir: Workdir,
}

impl DatapathFixture {
    /// Starts everything with these records of `example.com`, and an EgressFirewall that allows the pod only these
    /// names. An error is the reason why this process may not create networks.
    pub(crate) async fn start(
        zone: &str,
        names: &[&str],
        collector: &[&str],
    ) -> Result<Self, String> {
        let workdir = Workdir::new();
        let network = Network::new(workdir.path()).await?;
        Self::start_in(workdir, network, zone, names, "", collector).await
    }

    /// [`DatapathFixture::start`] with this `forward` line of CoreDNS, in a network and a folder that are there already.
    pub(crate) async fn start_in(
        workdir: Workdir,
        network: Network,
        zone: &str,
        names: &[&str],
        forward: &str,
        collector: &[&str],
    ) -> Result<Self, String> {
        let northbound = Northbound::start(workdir.path()).await;
        let mut datapath = Datapath::start(workdir.path(), &northbound).await?;
        create_others(&northbound);
        create_namespace(&northbound, TEAM);
        let pod = datapath.pod(&northbound, TEAM, "pod", POD).await;
        let servers = datapath.outside();
        NETWORKS
            .into_iter()
            .for_each(|network| servers.owns(network));
        servers.serve(PORT);
        servers.echo_from_any_address(PORT);
        datapath
            .attach(&northbound, "dns", network.pid(), DNS)
            .await;
        set_egress_firewall(&northbound, TEAM, names);

        let store = Store::new(workdir.join("store"));
        store.allow(TEAM, names);
        write_corefile(&workdir, forward);
        write_zone(&workdir, 1, zone);
        let ovn_writer = start_ovn_writer(&workdir, &store).await;
        let collector = start_asking(&workdir, &store, &network, collector).await;
        collector.ready().await;
        ovn_writer.ready().await;
        let coredns = CoreDns::start_in(workdir.path(), &network).await;
        Ok(Self {
            coredns,
            collector,
            ovn_writer,
            _datapath: datapath,
            pod,
            northbound,
            store,
            _network: network,
            workdir,
        })
    }

    /// Restarts CoreDNS with another `forward` line.
    pub(crate) async fn restart_coredns(&mut self, forward: &str) {
        write_corefile(&self.workdir, forward);
        self.coredns.restart().await;
    }

    /// CoreDNS, for the pod. The way there passes the switch.
    pub(crate) fn dns_of_pod(&self) -> SocketAddr {
        let [dns, _] = pod_addresses(DNS);
        SocketAddr::from((dns, self.coredns.address().port()))
    }

    /// Waits until the switch has the rules of all that the northbound database has now.
    pub(crate) async fn settled(&self) {
        eventually("OVN is in sync", async || {
            self.northbound.nbctl(&["--wait=hv", "sync"])
        })
        .await;
    }

    /// Replaces the EgressFirewall, and its ACLs as ovn-kubernetes does.
    pub(crate) fn set_rules(&self, names: &[&str]) {
        self.store.allow(TEAM, names);
        set_egress_firewall(&self.northbound, TEAM, names);
    }

    /// Replaces the records of `example.com`; CoreDNS reads them within a second.
    pub(crate) fn set_zone(&self, serial: u32, records: &str) {
        write_zone(&self.workdir, serial, records);
    }

    /// CoreDNS's answer to the pod, whose packets pass the same switch. Empty without an answer in two seconds.
    pub(crate) fn look_up(&self, name: &str) -> Vec<Ipv4Addr> {
        let reply = self.pod.look_up(self.dns_of_pod(), name, RecordType::A);
        let addresses = reply.map(|reply| reply.addresses()).unwrap_or_default();
        let v4 = addresses.into_iter().filter_map(|address| match address {
            std::net::IpAddr::V4(address) => Some(address),
            std::net::IpAddr::V6(_) => None,
        });
        v4.collect()
    }
}

async fn start_asking(
    workdir: &Workdir,
    store: &Store,
    network: &Network,
    flags: &[&str],
) -> Program {
    let resolver = format!("{}:5353", network.inside());
    let flags = [&["--resolver", &resolver], flags].concat();
    start_collector(workdir, store, &flags).await
}

fn write_corefile(workdir: &Workdir, forward: &str) {
    let corefile = COREFILE.replace("FORWARD", forward);
    fs::write(workdir.join("Corefile"), corefile).unwrap();
}

fn write_zone(workdir: &Workdir, serial: u32, records: &str) {
    let file = workdir.join("example.com.zone");
    coredns::write_zone(&file, "example.com.", serial, records);
}

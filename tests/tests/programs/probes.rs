//! Flush probes: they flush CoreDNS's buffered events, and reveal a CoreDNS without a stream.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use hickory_proto::rr::RecordType;
use serde_json::Value;
use tests::{
    admin::get_over_unix,
    coredns::{CoreDns, free_port},
    network::Network,
    or_skip,
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};

const NAME: &str = "www.example.com.";
const PROBES: &str = "egress_collector_flush_probes_total";
const NOT_STREAMING: &str = "egress_collector_dns_block_not_streaming";
const LOCAL: &str = "flush.cluster.local.";

/// A server block for a zone, which answers names under `cluster.local` and `example.com` itself.
fn block(zone: &str, bind: IpAddr, dnstap: &str, more: &str) -> String {
    format!(
        "{zone}:{{$DNS_PORT}} {{\n bind {bind}\n errors\n {dnstap}\n cache\n \
         template ANY ANY cluster.local {{\n rcode NXDOMAIN\n }}\n \
         template IN A example.com {{\n answer \"{{{{ .Name }}}} 300 IN A 192.0.2.10\"\n }}\n {more}\n}}\n"
    )
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const DNSTAP: &str = "dnstap unix://{$DNSTAP_SOCKET} full";

/// A collector that probes a CoreDNS, which starts later.
struct Probing {
    collector: Program,
    store: Store,
    server: SocketAddr,
    inspect: PathBuf,
    workdir: Workdir,
}

impl Probing {
    async fn start(flags: &[&str]) -> Self {
        Self::with(Workdir::new(), free_port(), flags).await
    }

    async fn with(workdir: Workdir, server: SocketAddr, flags: &[&str]) -> Self {
        let store = Store::new(workdir.join("store"));
        store.allow("team", &[NAME]);
        let inspect = workdir.join("inspect.sock");
        let shown = format!("unix://{}", inspect.display());
        let resolver = server.to_string();
        let own = ["--resolver", &resolver, "--inspect", &shown];
        let collector = start_collector(&workdir, &store, &[&own[..], flags].concat()).await;
        collector.ready().await;
        Self {
            collector,
            store,
            server,
            inspect,
            workdir,
        }
    }

    async fn coredns(&self, corefile: &str) -> CoreDns {
        fs::write(self.workdir.join("Corefile"), corefile).unwrap();
        CoreDns::start_at(self.workdir.path(), self.server).await
    }

    /// The blocks in the status, one for each server and name.
    async fn blocks(&self) -> Vec<Value> {
        let (_, body) = get_over_unix(&self.inspect, "/status.json").await.unwrap();
        let status: Value = serde_json::from_str(&body).unwrap();
        status["dnsBlocks"].as_array().unwrap().clone()
    }

    /// Waits until the status has this state for a server and name.
    async fn expect(&self, server: SocketAddr, name: &str, state: &str) -> Value {
        let what = format!("{server} {name} is {state}");
        eventually(&what, async || {
            let blocks = self.blocks().await;
            let is_it =
                |block: &&Value| block["server"] == *server.to_string() && block["name"] == *name;
            let found = blocks.iter().find(is_it);
            found
                .filter(|block| block["state"] == *state)
                .cloned()
                .ok_or_else(|| format!("{blocks:?}"))
        })
        .await
    }

    /// The number of log lines about a server and a name.
    fn said(&self, server: SocketAddr, name: &str, words: &str) -> usize {
        let messages = self.collector.messages();
        let is_it = |line: &&Value| {
            line["server"] == *server.to_string()
                && line["name"] == *name
                && line["message"].as_str().unwrap().contains(words)
        };
        messages.iter().filter(is_it).count()
    }
}

#[tokio::test]
async fn streams_are_flushed_before_any_rule_and_after_a_coredns_restart() {
    let probing = Probing::start(&["--flush-probe", "10ms"]).await;
    probing.store.remove_egress_firewall("team");
    let mut coredns = probing.coredns(&block(".", LOOPBACK, DNSTAP, "")).await;
    let block = probing.expect(probing.server, LOCAL, "streaming").await;
    let delay = "egress_collector_flush_delay_seconds_count";
    probing.collector.counts(delay, &[], 50.0).await;
    println!("the delay of the last probe: {}", block["delaySeconds"]);
    probing.collector.counts(PROBES, &[], 50.0).await;

    probing.store.allow("team", &[NAME]);
    // Its answers are streamed as before, without those to the collector's own queries.
    eventually("an answer arrives", async || {
        coredns.ask(NAME, RecordType::A).await;
        let entry = probing.store.resolved(NAME, NAME).ok_or("no entry")?;
        (!entry.resolved_addresses.is_empty())
            .then_some(())
            .ok_or_else(|| format!("{entry:?}"))
    })
    .await;

    coredns.process().kill();
    coredns.restart().await;
    let before = probing.collector.admin().metric(delay, &[]).await.unwrap();
    probing.collector.counts(delay, &[], before + 50.0).await;
}

#[tokio::test]
async fn a_coredns_lacking_dnstap_everywhere_or_in_one_block_is_named() {
    const INNER: &str = "flush.inner.test.";
    let silent = free_port();
    let server = free_port();
    let servers = format!("{server},{silent}");
    let flags = [
        "--flush-name",
        "flush.cluster.local,flush.inner.test",
        "--resolver",
        &servers,
    ];
    let workdir = Workdir::new();
    let other = Workdir::new();
    let probing = {
        let store = Store::new(workdir.join("store"));
        store.allow("team", &[NAME]);
        let inspect = workdir.join("inspect.sock");
        let shown = format!("unix://{}", inspect.display());
        let flags = [&flags[..], &["--inspect", &shown]].concat();
        let collector = start_collector(&workdir, &store, &flags).await;
        collector.ready().await;
        Probing {
            collector,
            store,
            server,
            inspect,
            workdir,
        }
    };
    let inner = "template ANY ANY inner.test {\n rcode NXDOMAIN\n }";
    let both = block(".", LOOPBACK, DNSTAP, "") + &block("inner.test", LOOPBACK, "", inner);
    let _coredns = probing.coredns(&both).await;
    fs::write(other.join("Corefile"), block(".", LOOPBACK, "", inner)).unwrap();
    let _silent = CoreDns::start_at(other.path(), silent).await;

    probing.expect(server, LOCAL, "streaming").await;
    for (server, name) in [(server, INNER), (silent, LOCAL), (silent, INNER)] {
        let block = probing.expect(server, name, "not_streaming").await;
        // They answer.
        assert_eq!(block["rcode"], 3);
        let labels = [format!("server=\"{server}\""), format!("name=\"{name}\"")];
        let labels = labels.each_ref().map(String::as_str);
        let named = probing
            .collector
            .admin()
            .metric(NOT_STREAMING, &labels)
            .await;
        assert_eq!(named.unwrap(), 1.0);
        assert_eq!(
            probing.said(server, name, "does not stream to this collector"),
            1
        );
    }
    let named = probing.collector.admin().metric(NOT_STREAMING, &[]).await;
    assert_eq!(named.unwrap(), 3.0);
    let (_, status) = get_over_unix(&probing.inspect, "/status.json")
        .await
        .unwrap();
    // Each is among the problems.
    assert_eq!(
        status
            .matches("check the `dnstap` line of this server block")
            .count(),
        3
    );
}

#[tokio::test]
async fn a_coredns_whose_packets_are_dropped_is_named_until_they_pass() {
    let workdir = Workdir::new();
    let network = or_skip!(Network::new(workdir.path()).await);
    let listener = SocketAddr::new(network.outside(), free_port().port());
    let listen = format!("tcp://{listener}");
    let allowed = format!("{}/32", network.inside());
    let flags = ["--listen", &listen, "--allow-peer", &allowed];
    let server = SocketAddr::new(network.inside(), 5353);
    let probing = Probing::with(workdir, server, &flags).await;
    let dnstap = format!("dnstap tcp://{listener} full");
    let corefile = block(".", network.inside(), &dnstap, "");
    fs::write(probing.workdir.join("Corefile"), corefile).unwrap();
    let _coredns = CoreDns::start_in(probing.workdir.path(), &network).await;
    probing.expect(server, LOCAL, "streaming").await;
    network.plug(false);
    probing.expect(server, LOCAL, "not_streaming").await;
    assert_eq!(
        probing.said(server, LOCAL, "does not stream to this collector"),
        1
    );
    network.plug(true);
    probing.expect(server, LOCAL, "streaming").await;
    let named = probing.collector.admin().metric(NOT_STREAMING, &[]).await;
    assert_eq!(named.unwrap(), 0.0);
}

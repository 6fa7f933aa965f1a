//! An API server with many rules, a collector, and zones.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{EACH, Senders};
use kube::Client;
use proto::api::EgressFirewall;
use serde_json::json;
use tests::{
    chart::{COLLECTOR, OVN_WRITER},
    coredns::free_port,
    kube::ApiServer,
    northbound::Northbound,
    programs::Program,
    upstream::{Scripted, Speech},
    wait::eventually_within,
    workdir::Workdir,
};

const NAMESPACE: &str = "ovn-kubernetes";

/// Names of one EgressFirewall.
const RULES: usize = 100;

/// The time limit of each step.
const PATIENCE: Duration = Duration::from_secs(900);

/// An ovn-writer and its database.
pub(crate) struct Zone {
    writer: Program,
    _northbound: Northbound,
    pub(crate) folder: Workdir,
}

/// Fields are in the order in which they end.
pub(crate) struct Cluster {
    pub(crate) zones: Vec<Zone>,
    collector: Program,
    /// The address of its dnstap listener.
    pub(crate) listener: SocketAddr,
    client: Client,
    /// The number of changes so far.
    changes: std::sync::atomic::AtomicU32,
    _upstream: Scripted,
    server: ApiServer,
    _folder: Workdir,
}

pub(crate) fn name(number: usize) -> String {
    format!("n{number}.scale.example.")
}

/// The initial addresses of a name.
pub(crate) fn addresses(number: usize) -> Vec<IpAddr> {
    let address = |n| Ipv4Addr::from_bits(0x0b00_0000 + (number * EACH + n) as u32).into();
    (0..EACH).map(address).collect()
}

/// The address that this change adds.
pub(crate) fn changed_address(change: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0c00_0000 + change).into()
}

impl Cluster {
    /// Starts the cluster, and returns when the status of every name has its addresses.
    pub(crate) async fn start(names: usize) -> Self {
        let mut server = ApiServer::start().await;
        server.make_namespace(NAMESPACE).await;
        server.grant(NAMESPACE, &[]).await;
        let client = server.client().await;
        for first in (0..names).step_by(RULES) {
            let namespace = format!("team-{first}");
            server.make_namespace(&namespace).await;
            let rule = |n| json!({ "type": "Allow", "to": { "dnsName": name(n) } });
            let rules: Vec<_> = (first..names.min(first + RULES)).map(rule).collect();
            let firewall: EgressFirewall = serde_json::from_value(json!({
                "apiVersion": "k8s.ovn.org/v1",
                "kind": "EgressFirewall",
                "metadata": { "name": "default" },
                "spec": { "egress": rules },
            }))
            .unwrap();
            let firewalls = kube::Api::namespaced(client.clone(), &namespace);
            let made = firewalls.create(&Default::default(), &firewall).await;
            made.unwrap();
        }
        // The DNS servers' answers, for any client.
        let upstream = Scripted::start(|asked| {
            let number = asked.name().strip_prefix('n').and_then(|rest| {
                let (number, _) = rest.split_once('.')?;
                number.parse::<usize>().ok()
            });
            let addresses = number.map(addresses).unwrap_or_default();
            asked.ips(&addresses, 300).say()
        })
        .await;
        let (folder, listener) = (Workdir::transient(), free_port());
        let [url, resolver] = [format!("tcp://{listener}"), upstream.address.to_string()];
        let flags = [
            "--store",
            "kube",
            "--listen",
            &url,
            "--allow-peer",
            "127.0.0.0/8",
            "--resolver",
            &resolver,
        ];
        let collector = start(&mut server, &folder, "collector", COLLECTOR, &flags).await;
        let cluster = Self {
            zones: Vec::new(),
            collector,
            listener,
            client,
            changes: 0.into(),
            _upstream: upstream,
            server,
            _folder: folder,
        };
        until("all names are known", async || {
            let metric = async |name| cluster.collector.admin().metric(name, &[]).await;
            let known = metric("egress_collector_objects").await.unwrap_or(0.0);
            let without = metric("egress_collector_names_without_addresses").await;
            known >= names as f64 && without.is_ok_and(|without| without == 0.0)
        })
        .await;
        cluster
    }

    pub(crate) async fn add_zone(&mut self) {
        let folder = Workdir::transient();
        let northbound = Northbound::start(folder.path()).await;
        let flags = ["--store", "kube", "--nb", &northbound.remote()];
        let writer = start(&mut self.server, &folder, "ovn-writer", OVN_WRITER, &flags).await;
        self.zones.push(Zone {
            writer,
            _northbound: northbound,
            folder,
        });
    }

    /// Waits until every zone has the addresses of `names` names.
    pub(crate) async fn in_sync(&self, names: usize) {
        for zone in &self.zones {
            until("a zone is in sync", async || {
                let metric = async |name| zone.writer.admin().metric(name, &[]).await;
                let objects = metric("egress_ovn_writer_objects").await.unwrap_or(0.0);
                let in_sync = metric("egress_ovn_writer_in_sync").await.unwrap_or(0.0);
                objects >= names as f64 && in_sync == 1.0
            })
            .await;
        }
    }

    /// Gives a name a new address, and returns the number of the change.
    pub(crate) async fn change(&self, senders: &Senders, number: usize) -> u32 {
        let change = self
            .changes
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        senders
            .send(&name(number), &[changed_address(change)])
            .await;
        change
    }

    /// The number of written statuses, and of bytes that the API server sent to their watchers.
    pub(crate) async fn written_and_watched(&self) -> (f64, f64) {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.unwrap();
        let sum = |metric: &str, labels: &[&str]| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(metric));
            let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
            lines
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                .sum()
        };
        let written = sum(
            "apiserver_request_total{",
            &[
                "resource=\"dnsnameresolvers\"",
                "subresource=\"status\"",
                "verb=\"PUT\"",
            ],
        );
        let watched = sum("apiserver_watch_events_sizes_sum{", &["dnsnameresolver"]);
        (written, watched)
    }
}

async fn start(
    server: &mut ApiServer,
    folder: &Workdir,
    program: &'static str,
    account: &str,
    flags: &[&str],
) -> Program {
    server.config_of(NAMESPACE, account).await;
    let kubeconfig = server.folder().join(format!("{account}.kubeconfig"));
    let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
    let args = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Program::start_with(folder.path(), program, args, environment).await
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    eventually_within(PATIENCE, what, async || {
        let is_so = is_so().await;
        is_so.then_some(()).ok_or_else(|| "it is not so".to_owned())
    })
    .await;
}

//! A rollout of the chart's collectors while CoreDNS streams.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hickory_proto::rr::RecordType;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::{Value, json};
use tests::{
    coredns::{CoreDns, free_port},
    dns::ask,
    kube::ApiServer,
    soak::{is_long, or_long},
    upstream::{Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};
use tokio::{task::JoinSet, time::sleep};

use crate::deployments::{Deployment, Release};

/// A cluster with the chart, and a CoreDNS that streams to its Services.
struct Cluster {
    server: Arc<ApiServer>,
    namespace: String,
    release: Release,
    coredns: CoreDns,
    /// The number of queried names. The upstream has [`NEW`] for these, and [`OLD`] for the others.
    asked: Arc<AtomicUsize>,
    _upstream: Scripted,
    /// Queries that make CoreDNS write, so that it redials after a failure.
    _noise: JoinSet<()>,
    _workdir: Workdir,
}

/// A name's address until a client's only query for it.
const OLD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Its address from then on: a collector that missed the client's answer can learn it by look-ups only.
const NEW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// The names queried per second.
fn rate() -> usize {
    or_long(10, 20)
}

/// The names of an EgressFirewall: enough to last longer than a rollout.
fn names() -> usize {
    or_long(60, 90) * rate()
}

fn name(i: usize) -> String {
    format!("n{i}.load.test.")
}

fn number(name: &str) -> Option<usize> {
    let number = name.strip_prefix('n')?.strip_suffix(".load.test.")?;
    number.parse().ok()
}

impl Cluster {
    /// Installs the chart in a namespace of its own.
    async fn start(server: &Arc<ApiServer>, instances: usize, resolves: bool) -> Self {
        let (workdir, namespace) = (Workdir::new(), server.namespace().await);
        let asked = Arc::<AtomicUsize>::default();
        let so_far = Arc::clone(&asked);
        let upstream = Scripted::start(move |query| {
            let so_far = so_far.load(Ordering::Relaxed);
            let is_new = number(&query.name()).is_some_and(|number| number < so_far);
            let ip = if is_new { NEW } else { OLD };
            query.ips(&[IpAddr::V4(ip)], 300).say()
        })
        .await;
        let dns = free_port();
        let resolver = if resolves {
            dns.to_string()
        } else {
            "none".to_owned()
        };
        let flags = ["--manage-objects=always", &format!("--resolver={resolver}")];
        let mut release = Release::install(server, &namespace, instances, &flags).await;
        release.start().await;
        let lines = release.dnstap();
        let corefile = format!(
            ".:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n{lines}    forward . {} {{\n        max_fails 0\n    }}\n}}\n",
            upstream.address
        );
        fs::write(workdir.join("Corefile"), corefile).unwrap();
        let coredns = CoreDns::start_at(workdir.path(), dns).await;
        let mut noise = JoinSet::new();
        for client in 0..4 {
            noise.spawn(ask_for_others(coredns.address(), client));
        }
        let cluster = Self {
            server: Arc::clone(server),
            namespace,
            release,
            coredns,
            asked,
            _upstream: upstream,
            _noise: noise,
            _workdir: workdir,
        };
        eventually("an object for each name", async || {
            let found = cluster.objects().await?.len();
            (found == names())
                .then_some(())
                .ok_or_else(|| found.to_string())
        })
        .await;
        cluster
    }

    async fn objects(&self) -> Result<Vec<DnsNameResolver>, String> {
        let api: Api<DnsNameResolver> =
            Api::namespaced(self.server.client().await, &self.namespace);
        let listed = api.list(&ListParams::default()).await;
        Ok(listed.map_err(|error| error.to_string())?.items)
    }

    /// The names among the first `asked` that lack this address.
    async fn missing(&self, asked: usize, ip: Ipv4Addr) -> Result<Vec<String>, String> {
        let ip = ip.to_string();
        let has_it = |object: &DnsNameResolver| {
            let names = object
                .status
                .iter()
                .flat_map(|status| &status.resolved_names);
            let mut addresses = names.flat_map(|name| &name.resolved_addresses);
            addresses.any(|address| address.ip == ip)
        };
        let objects = self.objects().await?;
        let found: Vec<&str> = objects
            .iter()
            .filter(|object| has_it(object))
            .map(|object| object.spec.name.as_str())
            .collect();
        let names = (0..asked).map(name);
        Ok(names
            .filter(|name| !found.contains(&name.as_str()))
            .collect())
    }

    /// Rolls all Deployments out at once, under load. Returns how many names were queried meanwhile.
    async fn roll(&mut self) -> usize {
        let mut client = JoinSet::new();
        client.spawn(ask_for_names(
            self.coredns.address(),
            Arc::clone(&self.asked),
        ));
        let deployments = &mut self.release.deployments;
        let rolls = deployments.iter_mut().map(Deployment::roll);
        futures_util::future::join_all(rolls).await;
        for deployment in &self.release.deployments {
            eventually("CoreDNS is back", async || {
                let streams = deployment.streams().await?;
                (streams > 0.5)
                    .then_some(())
                    .ok_or_else(|| streams.to_string())
            })
            .await;
        }
        drop(client);
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(asked < names(), "the load was over before the rollout");
        asked
    }
}

/// The test's clusters share one API server, so all of them read it.
async fn allow(server: &ApiServer) {
    let namespace = server.namespace().await;
    let rule = |i| json!({"type": "Allow", "to": {"dnsName": name(i)}});
    let rules: Vec<Value> = (0..names()).map(rule).collect();
    let firewall = json!({"metadata": {"name": "default"}, "spec": {"egress": rules}});
    let firewalls: Api<EgressFirewall> = Api::namespaced(server.client().await, &namespace);
    let firewall = serde_json::from_value(firewall).unwrap();
    firewalls
        .create(&PostParams::default(), &firewall)
        .await
        .unwrap();
}

/// Queries each name once. A lost datagram is sent again, since CoreDNS did not see it.
async fn ask_for_names(server: SocketAddr, asked: Arc<AtomicUsize>) {
    for i in 0..names() {
        asked.store(i + 1, Ordering::Relaxed);
        while ask(server, &name(i), RecordType::A).await.is_err() {}
        sleep(Duration::from_secs(1) / u32::try_from(rate()).unwrap()).await;
    }
}

/// Queries unwanted names, which fill CoreDNS's buffers.
async fn ask_for_others(server: SocketAddr, client: usize) {
    for i in 0_usize.. {
        // Losses do not matter.
        let name = format!("x{i}.client{client}.noise.test.");
        let _reply = ask(server, &name, RecordType::A).await;
        sleep(Duration::from_millis(or_long(20, 4))).await;
    }
}

async fn expect_all(cluster: &Cluster, asked: usize, ip: Ipv4Addr) {
    eventually("every address", async || {
        let missing = cluster.missing(asked, ip).await?;
        missing
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{missing:?} of {asked}"))
    })
    .await;
}

/// The standby has streamed for a while, as in every cluster that is not being installed.
async fn expect_report(cluster: &Cluster) {
    let leases: Api<Lease> = Api::namespaced(cluster.server.client().await, &cluster.namespace);
    eventually("the report of the standby", async || {
        let lease = leases.get("collector").await;
        let annotations = lease
            .map_err(|error| error.to_string())?
            .metadata
            .annotations;
        let reported: String = annotations.unwrap_or_default().into_values().collect();
        let is_streaming = reported.contains(r#""servers":1"#);
        is_streaming.then_some(()).ok_or(reported)
    })
    .await;
}

/// Two `dnstap` lines and no look-ups: the collectors know only the streams, and must not miss an answer.
async fn two_instances(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 2, false).await;
    expect_report(&cluster).await;
    let began = Instant::now();
    let asked = cluster.roll().await;
    let took = began.elapsed();
    expect_all(&cluster, asked, NEW).await;
    println!("two instances: none of {asked} events lost in a rollout of {took:.1?}");
}

/// One line and no look-ups: a missing answer was lost.
async fn one_instance(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 1, false).await;
    let asked = cluster.roll().await;
    // At most, for each of two streams, CoreDNS's buffer of one second, and its writes to a closed connection in
    // another.
    let most = 2 * 2 * rate();
    let lost = eventually("all but a few addresses", async || {
        let lost = cluster.missing(asked, NEW).await?.len();
        (lost <= most)
            .then_some(lost)
            .ok_or_else(|| lost.to_string())
    })
    .await;
    println!("one instance: {lost} of {asked} events lost");
}

/// One line, and the collectors backfill: they look up addresses that changed during the rollout.
async fn one_instance_that_asks(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 1, true).await;
    expect_all(&cluster, names(), OLD).await;
    let asked = cluster.roll().await;
    expect_all(&cluster, asked, NEW).await;
    println!("one instance, with look-ups: none of {asked} addresses missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_with_two_lines_loses_nothing_and_with_one_backfills() {
    let server = Arc::new(ApiServer::start().await);
    allow(&server).await;
    if is_long() {
        two_instances(&server).await;
        one_instance(&server).await;
        one_instance_that_asks(&server).await;
    } else {
        tokio::join!(
            two_instances(&server),
            one_instance(&server),
            one_instance_that_asks(&server)
        );
    }
}

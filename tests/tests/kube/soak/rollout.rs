//! A rollout of the chart's collectors while CoreDNS streams.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
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
    soak::or_long,
    upstream::{Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};
use tokio::{task::JoinSet, time::sleep};

use crate::deployments::{Deployment, Release};

/// A cluster with the chart, and a CoreDNS that streams to its Services.
struct Cluster {
    server: ApiServer,
    namespace: String,
    release: Release,
    coredns: CoreDns,
    /// The number of queried names.
    asked: Arc<AtomicUsize>,
    _upstream: Scripted,
    /// Queries that make CoreDNS write, so that it redials after a failure.
    _noise: JoinSet<()>,
    _workdir: Workdir,
}

/// The address of every name.
const ADDRESS: &str = "192.0.2.2";

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

impl Cluster {
    /// Installs the chart with two collectors, in a namespace of its own. They look nothing up.
    async fn start() -> Self {
        let server = ApiServer::start().await;
        allow(&server).await;
        let (workdir, namespace) = (Workdir::new(), server.namespace().await);
        let upstream = Scripted::start(|query| query.addresses(&[ADDRESS], 300).say()).await;
        let flags = ["--manage-objects=always", "--resolver=none"];
        let mut release = Release::install(&server, &namespace, &flags).await;
        release.start().await;
        let lines = release.dnstap();
        let corefile = format!(
            ".:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n{lines}    forward . {} {{\n        max_fails 0\n    }}\n}}\n",
            upstream.address
        );
        fs::write(workdir.join("Corefile"), corefile).unwrap();
        let coredns = CoreDns::start_at(workdir.path(), free_port()).await;
        let mut noise = JoinSet::new();
        for client in 0..4 {
            noise.spawn(ask_for_others(coredns.address(), client));
        }
        let cluster = Self {
            server,
            namespace,
            release,
            coredns,
            asked: Arc::default(),
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

    /// The names among the first `asked` that lack their address.
    async fn missing(&self, asked: usize) -> Result<Vec<String>, String> {
        let has_it = |object: &DnsNameResolver| {
            let names = object
                .status
                .iter()
                .flat_map(|status| &status.resolved_names);
            let mut addresses = names.flat_map(|name| &name.resolved_addresses);
            addresses.any(|address| address.ip == ADDRESS)
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
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_with_two_lines_loses_no_event() {
    let mut cluster = Cluster::start().await;
    expect_report(&cluster).await;
    let asked = cluster.roll().await;
    eventually("every address", async || {
        let missing = cluster.missing(asked).await?;
        let all = missing.is_empty().then_some(());
        all.ok_or_else(|| format!("{missing:?} of {asked}"))
    })
    .await;
    println!("none of {asked} events lost");
}

//! The chart's collectors on a cluster. One after the other is killed, paused, restarted or cut off from the API
//! server, or all are rolled out.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Mutex,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use kube::Client;
use runtime::{cluster::KubeStore, store::ObjectKey};
use rustix::process::Signal;
use tests::{
    coredns::{CoreDns, free_port},
    kube::ApiServer,
    monitor::Monitor,
    programs::Program,
    soak::or_long,
    told::{self, Clients},
    upstream::{Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};
use tokio::time::sleep;

use super::openshift::{Operator, plugin};
use crate::{
    cluster::key,
    collectors::{Objects, allow},
    databases::Ruled,
    deployments::{Deployment, Release},
    foreign::somebody_else,
    proxy::Proxy,
};

const ROTATING: &str = "rotating.test.";

const WILDCARD: &str = "*.wild.test.";

const SECOND: Duration = Duration::from_secs(1);

const TTL: Duration = Duration::from_secs(5);

/// A killed leader is followed within this time, and the next one writes what both heard.
const FOLLOWS: Duration = Duration::from_secs(20);

/// A name keeps its address for this many answers in a row.
const SAME: u32 = 20;

/// Clients' queries a second.
fn rate() -> u32 {
    or_long(100, 500)
}

/// Half of the queries are for one name. The others are for as many names as it takes for five a second each.
fn question(number: u32, per_second: u32) -> (&'static str, String) {
    match number % 2 {
        0 => (ROTATING, ROTATING.to_owned()),
        _ => (
            WILDCARD,
            format!("w{}.wild.test.", number / 2 % (per_second / 10)),
        ),
    }
}

/// Each name has a globally new address after this many answers.
pub(super) async fn upstream(same: u32, ttl: Duration) -> Scripted {
    #[derive(Default)]
    struct Given {
        answers: BTreeMap<String, (u32, Ipv4Addr)>,
        addresses: u32,
    }
    let given = Mutex::<Given>::default();
    let ttl = u32::try_from(ttl.as_secs()).unwrap();
    Scripted::start(move |asked| {
        if !asked.is_v4() {
            return asked.ips(&[], 0).say();
        }
        let given = &mut *given.lock().unwrap();
        let new = Ipv4Addr::from(0x0b00_0000 + given.addresses);
        let (answers, ip) = given.answers.entry(asked.name()).or_insert((same, new));
        if *answers == same {
            (*answers, *ip) = (0, new);
            given.addresses += 1;
        }
        *answers += 1;
        asked.ips(&[IpAddr::V4(*ip)], ttl).say()
    })
    .await
}

/// The chart's collectors, each with its own proxy to the API server.
pub(super) struct Instances {
    pub(super) release: Release,
    pub(super) proxies: Vec<Proxy>,
    pub(super) namespace: String,
    _workdir: Workdir,
}

impl Instances {
    /// Starts this many, which query this DNS server.
    pub(super) async fn start(
        server: &ApiServer,
        namespace: &str,
        count: usize,
        dns: SocketAddr,
    ) -> Self {
        let workdir = Workdir::new();
        let resolver = format!("--resolver={dns}");
        let flags = ["--manage-objects=always", "--grace=1s", &resolver];
        let mut release = Release::install(server, namespace, count, &flags).await;
        let mut proxies = Vec::new();
        for (i, deployment) in release.deployments.iter_mut().enumerate() {
            let config = server.config_of(namespace, &release.account).await;
            let proxy = Proxy::of(Client::try_from(config).unwrap()).await;
            let kubeconfig = workdir.join(format!("{i}.kubeconfig"));
            fs::rename(proxy.kubeconfig(&workdir), &kubeconfig).unwrap();
            deployment.reach_server_by(&kubeconfig);
            proxies.push(proxy);
        }
        release.start().await;
        Self {
            release,
            proxies,
            namespace: namespace.to_owned(),
            _workdir: workdir,
        }
    }

    /// Waits until every Deployment hears CoreDNS, and one collector leads. Returns the leader's Deployment.
    pub(super) async fn are_whole(&self) -> usize {
        eventually("all hear, and one leads", async || {
            let mut leaders = Vec::new();
            for (i, deployment) in self.release.deployments.iter().enumerate() {
                if deployment.streams().await? < 0.5 {
                    return Err(format!("{i} hears nothing"));
                }
                let leading = deployment.sum("egress_replica_leading").await?;
                leaders.extend(std::iter::repeat_n(i, leading.round() as usize));
            }
            match leaders[..] {
                [leader] => Ok(leader),
                _ => Err(format!("{leaders:?} lead")),
            }
        })
        .await
    }

    async fn disturb(&mut self, fault: Fault, instance: usize) {
        let deployment = &mut self.release.deployments[instance];
        match fault {
            Fault::Kill => {
                deployment.kill().await;
                sleep(Duration::from_secs(4)).await;
                deployment.start().await;
            }
            Fault::Pause(lasts) => {
                let process = deployment.pods()[0].program.process();
                process.signal(Signal::STOP);
                sleep(lasts).await;
                process.signal(Signal::CONT);
            }
            Fault::Restart => {
                deployment.end().await;
                deployment.start().await;
            }
            Fault::CutOff(lasts) => {
                self.proxies[instance].hang(true);
                sleep(lasts).await;
                self.proxies[instance].hang(false);
            }
            Fault::Rollout => {
                let deployments = &mut self.release.deployments;
                let rolls = deployments.iter_mut().map(Deployment::roll);
                join_all(rolls).await;
            }
        }
    }

    /// The number of status writes so far, by the codes of their answers.
    pub(super) fn status_writes(&self) -> BTreeMap<Option<u16>, usize> {
        let mut codes = BTreeMap::new();
        for asked in self.proxies.iter().flat_map(Proxy::status_writes) {
            *codes.entry(asked.code).or_default() += 1;
        }
        codes
    }
}

pub(super) async fn start_coredns(
    workdir: &Workdir,
    dns: SocketAddr,
    lines: &str,
    upstream: &Scripted,
) -> CoreDns {
    let corefile = format!(
        ".:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n{lines}    forward . {} {{\n        max_fails 0\n    }}\n}}\n",
        upstream.address
    );
    fs::write(workdir.join("Corefile"), corefile).unwrap();
    CoreDns::start_at(workdir.path(), dns).await
}

/// A fault of one collector, or of all.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Pause(Duration),
    Restart,
    CutOff(Duration),
    Rollout,
}

/// Each of them, and one twice.
const EACH: [Fault; 6] = [
    Fault::Kill,
    Fault::Pause(Duration::from_secs(4)),
    Fault::Restart,
    Fault::CutOff(Duration::from_secs(4)),
    Fault::Kill,
    Fault::Rollout,
];

/// A cluster with the chart, and a northbound database. Fields are in the order in which they are dropped.
struct Cluster {
    coredns: CoreDns,
    instances: Instances,
    _writer: Program,
    database: Ruled,
    _upstream: Scripted,
    _workdir: Workdir,
    _server: ApiServer,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::start().await;
        let namespace = server.namespace().await;
        Self::start_in(server, &namespace).await
    }

    /// In a namespace that may already have objects.
    async fn start_in(server: ApiServer, namespace: &str) -> Self {
        let workdir = Workdir::new();
        allow(&server, namespace, &[ROTATING, WILDCARD]).await;
        let (upstream, dns) = (upstream(SAME, TTL).await, free_port());
        let instances = Instances::start(&server, namespace, 2, dns).await;
        let names = [ROTATING, WILDCARD].map(str::to_owned);
        let database = Ruled::start(&names).await;
        let kubeconfig = server.kubeconfig();
        let writer = database
            .writer(&kubeconfig, &instances.namespace, &[])
            .await;
        let lines = instances.release.dnstap();
        let cluster = Self {
            coredns: start_coredns(&workdir, dns, &lines, &upstream).await,
            instances,
            _writer: writer,
            database,
            _upstream: upstream,
            _workdir: workdir,
            _server: server,
        };
        cluster.instances.are_whole().await;
        eventually("the names have sets", async || {
            let rows = cluster.database.northbound.rows()?;
            let has = |name: &String| rows.iter().any(|row| row.dns_name() == Some(name));
            let all = names.iter().all(has);
            all.then_some(()).ok_or_else(|| format!("{rows:?}"))
        })
        .await;
        cluster
    }

    /// Clients with this many queries a second, and a monitor of the sets, both from now on.
    async fn follow(&self, per_second: u32) -> (Clients, Monitor) {
        let history = Monitor::start(self.database.workdir.path()).await;
        let question = move |number| question(number, per_second);
        let clients = Clients::start(self.coredns.address(), per_second, question);
        (clients, history)
    }
}

/// Applies faults to the collectors while clients get answers all the time; the sets must have these.
async fn hold(cluster: &mut Cluster, faults: &[Fault], clients: &Clients, history: Monitor) {
    let began = Instant::now();
    for fault in faults {
        // The leader, and the other one.
        for is_leader in or_long(&[true][..], &[true, false]) {
            let leader = cluster.instances.are_whole().await;
            let instance = if *is_leader { leader } else { 1 - leader };
            println!(
                "{:?}: {fault:?} of {instance}, {leader} leads",
                began.elapsed()
            );
            cluster.instances.disturb(*fault, instance).await;
            sleep(or_long(Duration::ZERO, Duration::from_secs(3))).await;
        }
    }
    // After the last fault no collector may lead for a while.
    cluster.instances.are_whole().await;
    let told = clients.told(0);
    // The last answers have arrived, and their time is over.
    sleep(TTL).await;
    history.departures().await;
    let latest = match faults {
        [] => told::LATEST,
        _ => FOLLOWS,
    };
    told::judge(&told, &history.updates(), TTL, latest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_collector_what_clients_are_told_is_in_its_set() {
    let mut cluster = Cluster::start().await;
    let (clients, history) = cluster.follow(rate()).await;
    let long = [
        Fault::Kill,
        Fault::Pause(4 * SECOND),
        Fault::Restart,
        Fault::CutOff(4 * SECOND),
        Fault::Rollout,
        Fault::Kill,
        Fault::Pause(15 * SECOND),
        Fault::Restart,
        Fault::CutOff(15 * SECOND),
        Fault::Kill,
    ];
    let short = [Fault::CutOff(3 * SECOND), Fault::Kill];
    let faults = or_long(&short[..], &long);
    hold(&mut cluster, faults, &clients, history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_collectors_write_a_status_at_the_same_time_rarely() {
    let mut cluster = Cluster::start().await;
    let (clients, history) = cluster.follow(rate()).await;
    sleep(or_long(5 * SECOND, 120 * SECOND)).await;
    let writes = cluster.instances.status_writes();
    println!("writes of statuses by the codes of their answers: {writes:?}");
    let conflicts = writes.get(&Some(409)).copied().unwrap_or_default();
    let all: usize = writes.values().sum();
    assert!(conflicts * 50 <= all, "{conflicts} of {all}");
    hold(&mut cluster, &[], &clients, history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_pod_of_a_deployment_does_no_harm() {
    let mut cluster = Cluster::start().await;
    cluster.instances.release.deployments[1].start().await;
    // Three collectors hear each answer, one more than the machine can run fast.
    let (clients, history) = cluster.follow(or_long(100, 200)).await;
    let faults = or_long(&[Fault::Kill][..], &EACH);
    hold(&mut cluster, faults, &clients, history).await;
    // One leads: this is checked before each fault.
    cluster.instances.are_whole().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_the_plugin_and_the_operator_of_openshift_nothing_is_lost() {
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    let store = somebody_else(&server).await;
    let mut operators = Vec::new();
    for (object, name) in [("rotating", ROTATING), ("wildcard", WILDCARD)] {
        objects.make(object, name).await;
        operators.push(Operator::start(store.clone(), key(&namespace, object)));
    }
    let mut cluster = Cluster::start_in(server, &namespace).await;
    // The plugin writes as often as the collectors, and one of them always has a conflict.
    let (clients, history) = cluster.follow(rate()).await;
    let faults = or_long(&[Fault::Kill][..], &EACH);
    let plugin = plugin_writes(&store, key(&namespace, "rotating"), &clients);
    tokio::select! {
        () = hold(&mut cluster, faults, &clients, history) => {}
        () = plugin => {}
    }
}

/// OpenShift's plugin in CoreDNS also writes the answers of clients.
async fn plugin_writes(store: &KubeStore, object: ObjectKey, clients: &Clients) {
    let (mut seen, mut last) = (0, None);
    loop {
        let told = clients.told(seen);
        seen += told.len();
        for told in told.into_iter().filter(|told| told.rule == ROTATING) {
            if last.replace(told.ip) != Some(told.ip) {
                plugin(store, &object, told.ip).await;
            }
        }
        sleep(SECOND / 50).await;
    }
}

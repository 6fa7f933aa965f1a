//! A rollout of the chart's collectors while CoreDNS streams: processes that are started and ended as the rendered Deployments
//! say, behind what plays their Services.

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
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::{Value, json};
use tests::{
    chart,
    coredns::{CoreDns, free_port},
    dns::ask,
    kube::ApiServer,
    programs::Program,
    service::Service,
    soak::{is_long, or_long},
    upstream::{Scripted, Speech},
    wait::{eventually, eventually_within},
    workdir::Workdir,
};
use tokio::{task::JoinSet, time::sleep};

/// How long after its SIGTERM a pod still gets new streams: the endpoints' controller and every node have to hear of it.
const LAG: Duration = Duration::from_secs(1);

/// What the chart is told; the delay is over [`LAG`].
const DELAY: &str = "collector.shutdownDelaySeconds=2";

/// A cluster with the chart in it, and a CoreDNS that streams to its Services.
struct Cluster {
    server: Arc<ApiServer>,
    namespace: String,
    account: String,
    deployments: Vec<Deployment>,
    coredns: CoreDns,
    /// So many names were asked for. Of these the upstream says [`NEW`], and of the others still [`OLD`].
    asked: Arc<AtomicUsize>,
    _upstream: Scripted,
    /// What makes CoreDNS write: it dials again when it cannot.
    _noise: JoinSet<()>,
    workdir: Workdir,
}

struct Deployment {
    spec: Value,
    service: Service,
    pods: Vec<Pod>,
}

struct Pod {
    program: Program,
    address: SocketAddr,
}

/// A name's address until a client asks for it, which it does once.
const OLD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Its address from then on: who missed the answer to the client learns it by look-ups alone.
const NEW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// For so many names a second.
fn rate() -> usize {
    or_long(10, 20)
}

/// How many names an EgressFirewall wants: for longer than a rollout takes.
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

impl Deployment {
    /// Starts a pod, and puts it behind the Service when it is ready.
    async fn start(&mut self, kubeconfig: &str, workdir: &Workdir) {
        let pod = &self.spec["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
        let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        // All but where it is in its network.
        let elsewhere = ["--admin=", "--log-format=", "--listen=", "--inspect="];
        let is_kept = |arg: &String| !elsewhere.iter().any(|flag| arg.starts_with(flag));
        let listen = "--listen=tcp://127.0.0.1:0".to_owned();
        let args = args.into_iter().filter(is_kept).chain([listen]).collect();
        let environment = vec![("KUBECONFIG", kubeconfig.to_owned())];
        let program = Program::start_with(workdir.path(), "collector", args, environment).await;
        program.ready().await;
        let messages = program.messages();
        let mut listens = messages
            .iter()
            .filter(|it| it["message"] == "listening for dnstap");
        let listen = listens.next().and_then(|it| it["listen"].as_str()).unwrap();
        let address = listen.strip_prefix("tcp://").unwrap().parse().unwrap();
        self.service.add(address);
        self.pods.push(Pod { program, address });
    }

    /// Replaces its pods one by one, as the Deployment's controller and the kubelets do.
    async fn roll(&mut self, kubeconfig: &str, workdir: &Workdir) {
        let update = &self.spec["strategy"]["rollingUpdate"];
        assert_eq!(
            (&update["maxSurge"], &update["maxUnavailable"]),
            (&json!(1), &json!(0))
        );
        let settled = self.spec["minReadySeconds"].as_u64().unwrap();
        let grace = &self.spec["template"]["spec"]["terminationGracePeriodSeconds"];
        let grace = Duration::from_secs(grace.as_u64().unwrap());
        for _ in 0..self.pods.len() {
            self.start(kubeconfig, workdir).await;
            if is_long() {
                sleep(Duration::from_secs(settled)).await;
            }
            let mut old = self.pods.remove(0);
            old.program.process().signal(rustix::process::Signal::TERM);
            sleep(LAG).await;
            let ended = old.program.process().ended();
            assert!(ended.is_none(), "it reads until nobody is sent to it");
            self.service.remove(old.address);
            let status = eventually_within(grace, "the end of the pod", async || {
                let process = old.program.process();
                process.ended().ok_or_else(|| process.log())
            })
            .await;
            assert_eq!(status.code(), Some(0));
        }
    }
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
        let args = format!("collector.extraArgs={{--manage-objects=always,--resolver={resolver}}}");
        let instances = format!("collector.instances={instances}");
        let fullname = format!("fullnameOverride={namespace}");
        let flags = [
            "--set", &instances, "--set", &fullname, "--set", DELAY, "--set", &args,
        ];
        server.grant(&namespace, &flags).await;
        let account = format!("{namespace}-collector");
        server.config_of(&namespace, &account).await;

        let objects = format!("objectsNamespace={namespace}");
        let rendered = chart::render(&namespace, &[&flags[..], &["--set", &objects]].concat());
        let mut deployments = Vec::new();
        let of_collector = |it: &&DynamicObject| {
            chart::kind_of(it) == "Deployment"
                && it
                    .metadata
                    .name
                    .as_ref()
                    .is_some_and(|name| name.starts_with(&account))
        };
        for object in rendered.iter().filter(of_collector) {
            deployments.push(Deployment {
                spec: object.data["spec"].clone(),
                service: Service::start().await,
                pods: Vec::new(),
            });
        }
        let kubeconfig = kubeconfig(server, &account);
        for deployment in &mut deployments {
            for _ in 0..deployment.spec["replicas"].as_u64().unwrap() {
                deployment.start(&kubeconfig, &workdir).await;
            }
        }
        let lines: String = deployments
            .iter()
            .map(|it| format!("    dnstap tcp://{} full\n", it.service.address()))
            .collect();
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
            account,
            deployments,
            coredns,
            asked,
            _upstream: upstream,
            _noise: noise,
            workdir,
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

    /// Those of the first names that lack this address.
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

    /// Rolls all Deployments out at once, under load. Returns how many names were asked for meanwhile.
    async fn roll(&mut self) -> usize {
        let kubeconfig = kubeconfig(&self.server, &self.account);
        let mut client = JoinSet::new();
        client.spawn(ask_for_names(
            self.coredns.address(),
            Arc::clone(&self.asked),
        ));
        let workdir = &self.workdir;
        let rolls = self
            .deployments
            .iter_mut()
            .map(|it| it.roll(&kubeconfig, workdir));
        futures_util::future::join_all(rolls).await;
        for deployment in &self.deployments {
            eventually("CoreDNS is back", async || {
                let mut streams = 0.0;
                for pod in &deployment.pods {
                    let open = pod.program.admin().metric("collector_connections", &[]);
                    streams += open.await.map_err(|error| error.to_string())?;
                }
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

fn kubeconfig(server: &ApiServer, account: &str) -> String {
    let path = server.folder().join(format!("{account}.kubeconfig"));
    path.display().to_string()
}

/// All clusters read it, which are one to the API server.
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

/// Asks for each name once. A lost datagram is asked again, as CoreDNS did not see it.
async fn ask_for_names(server: SocketAddr, asked: Arc<AtomicUsize>) {
    for i in 0..names() {
        asked.store(i + 1, Ordering::Relaxed);
        while ask(server, &name(i), RecordType::A).await.is_err() {}
        sleep(Duration::from_secs(1) / u32::try_from(rate()).unwrap()).await;
    }
}

/// Names that nobody wants, which fill CoreDNS's buffers.
async fn ask_for_others(server: SocketAddr, client: usize) {
    for i in 0_usize.. {
        // What is lost is lost.
        let name = format!("x{i}.client{client}.noise.test.");
        let _reply = ask(server, &name, RecordType::A).await;
        sleep(Duration::from_millis(or_long(20, 4))).await;
    }
}

/// Waits until each of the first names has this address.
async fn expect_all(cluster: &Cluster, asked: usize, ip: Ipv4Addr) {
    eventually("every address", async || {
        let missing = cluster.missing(asked, ip).await?;
        missing
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{missing:?}"))
    })
    .await;
}

/// Two `dnstap` lines: nothing but what the streams bring is known, and nothing is missing.
async fn two_instances(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 2, false).await;
    let began = Instant::now();
    let asked = cluster.roll().await;
    let took = began.elapsed();
    expect_all(&cluster, asked, NEW).await;
    println!("two instances: none of {asked} events lost in a rollout of {took:.1?}");
}

/// One line, and nobody asks: what is missing then was lost.
async fn one_instance(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 1, false).await;
    let asked = cluster.roll().await;
    // Of each of two streams at most what CoreDNS holds back in a second, and what it writes to nobody in another.
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

/// One line, and the collectors ask again for what they may have missed: an address that came during the rollout.
async fn one_instance_that_asks(server: &Arc<ApiServer>) {
    let mut cluster = Cluster::start(server, 1, true).await;
    expect_all(&cluster, names(), OLD).await;
    let asked = cluster.roll().await;
    expect_all(&cluster, asked, NEW).await;
    println!("one instance, with look-ups: none of {asked} addresses missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_loses_nothing_with_two_lines_and_with_one_little_that_is_asked_for_again() {
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

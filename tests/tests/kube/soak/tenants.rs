//! Attacks of one tenant on others, on a whole cluster: stock CoreDNS, pods in network namespaces, a real API server
//! with etcd, and the collector. docs/security.md has the list.

mod addresses;
mod floods;
mod labels;
mod lookups;
mod rules;
mod writes;
mod zones;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Mutex,
    time::Duration,
};

use futures_util::future::join_all;
use hickory_proto::{op::ResponseCode, rr::RecordType};
use k8s_openapi::api::{
    core::v1::{Pod as PodObject, ServiceAccount},
    discovery::v1::EndpointSlice,
    events::v1::Event,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use proto::api::EgressFirewall;
use serde_json::json;
use tests::{
    coredns::CoreDns,
    kube::ApiServer,
    network::Network,
    pods::{POD_NETWORK, Pod},
    programs::Program,
    upstream::{Asked, Say, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};
use tokio::time::timeout;

use crate::{
    collectors::{Objects, egress_firewall},
    guards::add_node,
    history::addresses,
};

/// After this time without its address a pod asks again.
const AGAIN: Duration = Duration::from_secs(5);

/// The most queries for a name.
const ATTEMPTS: usize = 24;

/// The namespace of the objects.
const NAMESPACE: &str = "ovn-kubernetes";

/// The Service of all collectors.
const COLLECTORS: &str = "collectors";

/// CoreDNS answers for names in the zones, and forwards other names in `test` to the upstream.
const COREFILE: &str = r#"
.:{$DNS_PORT} {
    bind ADDRESS
    errors
    STREAMS
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    ZONES
    forward test UPSTREAM {
        max_fails 0
    }
}
"#;

/// The cluster. Fields are in the order in which they are dropped.
struct Cluster {
    collector: Collector,
    coredns: CoreDns,
    upstream: Scripted,
    objects: Objects,
    server: ApiServer,
    network: Network,
    workdir: Workdir,
    flags: Vec<String>,
    pods: u32,
    /// The names of objects by their `spec.name`.
    resolvers: Mutex<BTreeMap<String, String>>,
}

/// A collector, and its listener's address.
struct Collector {
    program: Program,
    workdir: Workdir,
}

impl Collector {
    fn socket(&self) -> PathBuf {
        self.workdir.join("dnstap.sock")
    }

    async fn leads(&self) {
        self.program
            .counts("egress_replica_leading", &[], 1.0)
            .await;
    }

    async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let value = self.program.admin().metric(name, labels).await;
        value.expect("the collector answers")
    }
}

/// An upstream whose names have no data.
fn no_data(asked: &Asked) -> Vec<Say> {
    asked.reply(ResponseCode::NoError).say()
}

impl Cluster {
    /// Starts everything and waits until the collector leads. `script` is that of the upstream; the flags are the
    /// collector's.
    ///
    /// # Errors
    /// The reason, if this process may not create networks.
    async fn start(
        script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static,
        flags: &[&str],
    ) -> Result<Self, String> {
        let workdir = Workdir::new();
        let network = Network::new(workdir.path()).await?;
        let upstream = Scripted::start_at(network.outside(), script).await;
        let server = ApiServer::start().await;
        server.make_namespace(NAMESPACE).await;
        add_node(&server, "node", POD_NETWORK).await;
        add_collectors(&server, &network).await;
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let collector = start_collector(&server, &network, &flags).await;
        collector.leads().await;
        write_corefile(&workdir, &network, &upstream, &[&collector]);
        // Last, since CoreDNS dials the collector when it starts and then only every 10 seconds.
        let coredns = CoreDns::start_in(workdir.path(), &network).await;
        Ok(Self {
            collector,
            coredns,
            upstream,
            objects: Objects::of(&server, NAMESPACE).await,
            server,
            network,
            workdir,
            flags,
            pods: 0,
            resolvers: Mutex::default(),
        })
    }

    async fn restart(&mut self) {
        let program = &mut self.collector.program;
        program.process().terminate().await;
        program.restart().await;
        program.ready().await;
        self.collector.leads().await;
        self.coredns.restart().await;
    }

    /// Another collector starts, and then the first one ends.
    async fn take_over(&mut self) {
        let other = start_collector(&self.server, &self.network, &self.flags).await;
        let both = [&self.collector, &other];
        write_corefile(&self.workdir, &self.network, &self.upstream, &both);
        self.coredns.restart().await;
        let mut first = std::mem::replace(&mut self.collector, other);
        first.program.process().terminate().await;
        self.collector.leads().await;
    }

    /// Creates a namespace with running pods, and with an EgressFirewall if there is one.
    async fn tenant(
        &mut self,
        namespace: &str,
        firewall: Option<EgressFirewall>,
        pods: u32,
    ) -> Vec<Pod> {
        self.server.make_namespace(namespace).await;
        if let Some(firewall) = firewall {
            self.set_rules(namespace, &firewall).await;
        }
        let client = self.server.client().await;
        let post = PostParams::default();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }));
        accounts.create(&post, &account.unwrap()).await.unwrap();
        let made = Pod::make(&self.network, self.coredns.address(), self.pods, pods).await;
        self.pods += pods;
        let objects: Api<PodObject> = Api::namespaced(client, namespace);
        let make = async |pod: &Pod| {
            let (name, address) = (format!("pod-{}", pod.address), pod.address);
            let object = json!({ "metadata": { "name": name }, "spec": {
                "automountServiceAccountToken": false,
                "containers": [{ "name": "c", "image": "c" }],
            } });
            let object = serde_json::from_value(object).unwrap();
            objects.create(&post, &object).await.unwrap();
            // No kubelet runs it here.
            let status = json!({ "status": {
                "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
            } });
            let (params, status) = (PatchParams::default(), Patch::Merge(status));
            objects.patch_status(&name, &params, &status).await.unwrap();
        };
        join_all(made.iter().map(make)).await;
        made
    }

    async fn set_rules(&self, namespace: &str, firewall: &EgressFirewall) {
        let firewalls: Api<EgressFirewall> = Api::namespaced(self.server.client().await, namespace);
        let made = firewalls.create(&PostParams::default(), firewall).await;
        made.unwrap();
    }

    /// The names in the status of this name's object.
    async fn names(&self, spec: &str) -> Result<BTreeSet<String>, String> {
        let object = self.object(spec).await?;
        let object = self.objects.api.get(&object).await;
        let object = object.map_err(|error| error.to_string())?;
        let names = addresses(&object).into_iter().map(|(name, _)| name);
        Ok(names.collect())
    }

    /// The name of this name's object. The objects are large, so they are listed once.
    async fn object(&self, spec: &str) -> Result<String, String> {
        let known = self.resolvers.lock().unwrap().get(spec).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let objects = self.objects.named(spec).await?;
        let object = objects.first().ok_or("there is no object")?.name_any();
        let mut resolvers = self.resolvers.lock().unwrap();
        Ok(resolvers.entry(spec.to_owned()).or_insert(object).clone())
    }

    /// Waits until the status of an object has this name, and returns all of its names.
    async fn has(&self, spec: &str, name: &str) -> BTreeSet<String> {
        eventually(&format!("{name} is in the status of {spec}"), async || {
            let names = self.names(spec).await?;
            match names.contains(name) {
                true => Ok(names),
                false => Err(format!("it has {} names", names.len())),
            }
        })
        .await
    }

    /// The pod queries IPv4 addresses of a name, and they arrive in the status of an object.
    async fn flows(&self, pod: &Pod, spec: &str, name: &str) {
        pod.ask(name, RecordType::A).await;
        self.has(spec, name).await;
    }

    /// The pod queries the name until it arrives in the status of an object: CoreDNS and the collector drop answers while
    /// they have too little of the processor. Returns all names of the status.
    async fn arrives(
        &self,
        pod: &Pod,
        spec: &str,
        (name, kind): (&str, RecordType),
    ) -> BTreeSet<String> {
        for _ in 0..ATTEMPTS {
            pod.ask(name, kind).await;
            if let Ok(names) = timeout(AGAIN, self.has(spec, name)).await {
                return names;
            }
        }
        panic!("{name} does not arrive in the status of {spec}");
    }

    async fn tells(&self, namespace: &str, reason: &str) {
        let events: Api<Event> = Api::namespaced(self.server.client().await, namespace);
        eventually(&format!("{namespace} is told of {reason}"), async || {
            let all = events.list(&ListParams::default()).await;
            let all = all.map_err(|error| error.to_string())?.items;
            let mut reasons = all.iter().filter_map(|event| event.reason.as_deref());
            let is_told = reasons.any(|it| it == reason).then_some(());
            is_told.ok_or_else(|| format!("{all:?}"))
        })
        .await;
    }
}

/// Registers the collectors' source addresses: their look-ups are no client queries to each other.
async fn add_collectors(server: &ApiServer, network: &Network) {
    let slices: Api<EndpointSlice> = Api::namespaced(server.client().await, NAMESPACE);
    let slice = json!({
        "metadata": { "name": COLLECTORS, "labels": { "kubernetes.io/service-name": COLLECTORS } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [network.outside().to_string()] }],
        "ports": [{ "name": "dnstap", "port": 6000, "protocol": "TCP" }],
    });
    let slice = serde_json::from_value(slice).unwrap();
    slices.create(&PostParams::default(), &slice).await.unwrap();
}

/// Starts a collector that queries CoreDNS in the network.
async fn start_collector(server: &ApiServer, network: &Network, flags: &[String]) -> Collector {
    let workdir = Workdir::new();
    let listen = format!("unix://{}", workdir.join("dnstap.sock").display());
    let resolver = CoreDns::address_in(network).to_string();
    let collectors = format!("{NAMESPACE}/{COLLECTORS}");
    let own = [
        "--store=kube",
        "--objects-namespace",
        NAMESPACE,
        "--manage-objects=always",
        "--listen",
        &listen,
        "--resolver",
        &resolver,
        "--peer-service",
        &collectors,
    ];
    let own = own.map(str::to_owned).into_iter();
    let args = own.chain(flags.iter().cloned()).collect();
    let environment = vec![("KUBECONFIG", server.kubeconfig().display().to_string())];
    let program = Program::start_with(workdir.path(), "collector", args, environment).await;
    program.ready().await;
    Collector { program, workdir }
}

fn write_corefile(
    workdir: &Workdir,
    network: &Network,
    upstream: &Scripted,
    collectors: &[&Collector],
) {
    let streams = collectors.iter().map(|collector| {
        let socket = collector.socket();
        format!("dnstap unix://{} full\n", socket.display())
    });
    let text = COREFILE
        .replace("ADDRESS", &network.inside().to_string())
        .replace("STREAMS", &streams.collect::<String>())
        .replace("ZONES", &zones::templates())
        .replace("UPSTREAM", &upstream.address.to_string());
    fs::write(workdir.join("Corefile"), text).unwrap();
}

fn allow(names: &[&str]) -> Option<EgressFirewall> {
    Some(egress_firewall(names))
}

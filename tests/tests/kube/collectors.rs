//! A collector on a cluster: the stream that it reads, the DNS server that it asks, the objects that it keeps.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    time::{Duration, Instant},
};

use kube::{Api, api::PostParams};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::json;
use tests::{
    dnstap::{Sender, answer, data, event_for},
    kube::ApiServer,
    programs::{Build, Program},
    wait::eventually,
    workdir::Workdir,
};

use crate::{
    history::{Addresses, addresses},
    nameserver::NameServer,
};

/// Addresses leave soon: one second after they were said to, and one of grace.
const FLAGS: [&str; 4] = ["--min-ttl", "1s", "--grace", "1s"];

/// It keeps objects that somebody else makes.
pub(crate) const NEVER: [&str; 2] = ["--manage-objects", "never"];

/// A running collector. Fields are in the order in which they end.
pub(crate) struct Collector {
    pub(crate) program: Program,
    pub(crate) nameserver: NameServer,
    stream: Sender,
    workdir: Workdir,
}

impl Collector {
    /// Starts one that keeps the objects of the namespace; `more` are more of its flags. Returns when it is ready.
    pub(crate) async fn start(kubeconfig: &Path, namespace: &str, more: &[&str]) -> Self {
        let (workdir, nameserver) = (Workdir::new(), NameServer::start().await);
        let socket = workdir.join("dnstap.sock");
        let listen = format!("unix://{}", socket.display());
        let resolver = nameserver.address().to_string();
        let args = [
            "--store",
            "kube",
            "--objects-namespace",
            namespace,
            "--listen",
            &listen,
            "--resolver",
            &resolver,
        ];
        let args = args.iter().chain(&FLAGS).chain(more);
        let args = args.map(|flag| (*flag).to_owned()).collect();
        let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
        let program = Program::start_with(workdir.path(), "collector", args, environment).await;
        program.ready().await;
        let stream = Sender::open(&socket).await;
        Self {
            program,
            nameserver,
            stream,
            workdir,
        }
    }

    /// Starts it again, after it has ended. Returns when it is ready.
    pub(crate) async fn restart(&mut self) {
        self.program.restart().await;
        self.program.ready().await;
        self.stream = Sender::open(&self.workdir.join("dnstap.sock")).await;
    }

    /// Ends it in order and starts another build of it. Returns when it is ready.
    pub(crate) async fn become_build(&mut self, build: &Build) {
        self.program.become_build(build).await;
        self.program.ready().await;
        self.stream = Sender::open(&self.workdir.join("dnstap.sock")).await;
    }

    /// It hears that a pod was given these addresses for the name, with a TTL in seconds.
    pub(crate) async fn hears(&mut self, name: &str, ips: &[IpAddr], ttl: u32) {
        let client = Ipv4Addr::new(10, 0, 0, 9);
        let event = event_for(Some(client), answer(name, ips, ttl));
        let sent = self.stream.send(&data(&event)).await;
        sent.expect("the collector reads");
    }

    /// A metric's sum, as [`tests::admin::Admin::metric`] says.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metric = self.program.admin().metric(name, labels).await;
        metric.expect("the collector answers")
    }

    /// Waits until it leads, or does not.
    pub(crate) async fn expect_leading(&self, leads: bool) {
        let wanted = f64::from(u8::from(leads));
        eventually(&format!("it leads: {leads}"), async || {
            match self.program.admin().metric("replica_leading", &[]).await {
                Ok(found) if found == wanted => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// The memory that it has, in KiB.
    pub(crate) fn resident_kib(&mut self) -> u64 {
        let [now, _] = self.program.process().memory();
        now >> 10
    }

    /// Whether it is still the process that it was.
    pub(crate) fn is_the_process(&mut self, pid: u32) -> bool {
        let process = self.program.process();
        process.ended().is_none() && process.pid() == pid
    }
}

/// The DNSNameResolver objects of a namespace.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) api: Api<DnsNameResolver>,
    pub(crate) namespace: String,
}

impl Objects {
    pub(crate) async fn of(server: &ApiServer, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(server.client().await, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Makes one, as somebody else does.
    pub(crate) async fn make(&self, object: &str, name: &str) -> DnsNameResolver {
        let object = json!({
            "apiVersion": "network.openshift.io/v1alpha1",
            "kind": "DNSNameResolver",
            "metadata": { "name": object, "namespace": self.namespace },
            "spec": { "name": name },
        });
        let object = serde_json::from_value(object).expect("an object");
        let made = self.api.create(&PostParams::default(), &object).await;
        made.expect("it is made")
    }

    /// Those of a name.
    pub(crate) async fn named(&self, name: &str) -> Result<Vec<DnsNameResolver>, String> {
        let listed = self.api.list(&kube::api::ListParams::default()).await;
        let mut objects = listed.map_err(|error| error.to_string())?.items;
        objects.retain(|object| object.spec.name == name);
        Ok(objects)
    }

    /// What those of a name say.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Addresses, String> {
        let objects = self.named(name).await?;
        Ok(objects.iter().flat_map(addresses).collect())
    }

    /// Waits until those of a name say these addresses of it, and no others; returns how long that took.
    pub(crate) async fn expect(&self, name: &str, ips: &[&str]) -> Duration {
        let started = Instant::now();
        let wanted: Addresses = ips
            .iter()
            .map(|ip| (name.to_owned(), (*ip).to_owned()))
            .collect();
        eventually(&format!("{ips:?} in the status of {name}"), async || {
            let found = self.addresses(name).await?;
            (found == wanted)
                .then_some(())
                .ok_or_else(|| format!("{found:?}"))
        })
        .await;
        started.elapsed()
    }
}

/// Makes the EgressFirewall of a namespace, that allows these names.
pub(crate) async fn allow(server: &ApiServer, namespace: &str, names: &[&str]) {
    let firewalls: Api<EgressFirewall> = Api::namespaced(server.client().await, namespace);
    let made = firewalls
        .create(&PostParams::default(), &egress_firewall(names))
        .await;
    made.expect("it is made");
}

/// An EgressFirewall that allows these names.
pub(crate) fn egress_firewall(names: &[&str]) -> EgressFirewall {
    let rules: Vec<_> = names
        .iter()
        .map(|name| json!({ "type": "Allow", "to": { "dnsName": name } }))
        .collect();
    let firewall = json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "EgressFirewall",
        "metadata": { "name": "default" },
        "spec": { "egress": rules },
    });
    serde_json::from_value(firewall).expect("an EgressFirewall")
}

//! A collector in a cluster: its stream, its DNS server, and its objects.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use kube::{Api, api::PostParams};
use proto::api::DnsNameResolver;
use serde_json::json;
use tests::{
    dnstap::{Sender, answer, data, event_for},
    kube::ApiServer,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use crate::nameserver::NameServer;

/// Addresses leave soon: after a TTL of one second, and one second of grace.
const FLAGS: [&str; 4] = ["--min-ttl", "1s", "--grace", "1s"];

/// The collector keeps objects that other clients create.
pub(crate) const NEVER: [&str; 2] = ["--manage-objects", "never"];

/// A running collector. Fields are in the order in which they are dropped.
pub(crate) struct Collector {
    pub(crate) program: Program,
    pub(crate) nameserver: NameServer,
    stream: Sender,
    _workdir: Workdir,
}

impl Collector {
    /// Starts a collector for the objects of the namespace, with additional flags. Returns when it is ready.
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
            _workdir: workdir,
        }
    }

    /// Sends it an answer to a pod with these addresses for the name, with a TTL in seconds.
    pub(crate) async fn hears(&mut self, name: &str, ips: &[IpAddr], ttl: u32) {
        let client = Ipv4Addr::new(10, 0, 0, 9);
        let event = event_for(client, answer(name, ips, ttl));
        let sent = self.stream.send(&data(&event)).await;
        sent.expect("the collector reads");
    }

    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metric = self.program.admin().metric(name, labels).await;
        metric.expect("the collector answers")
    }

    /// Waits until it leads, or does not.
    pub(crate) async fn expect_leading(&self, leads: bool) {
        let wanted = f64::from(u8::from(leads));
        eventually(&format!("it leads: {leads}"), async || {
            match self
                .program
                .admin()
                .metric("egress_replica_leading", &[])
                .await
            {
                Ok(found) if found == wanted => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// The content of objects: (name, address) each.
pub(crate) type Addresses = BTreeSet<(String, String)>;

fn addresses(object: &DnsNameResolver) -> Addresses {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let pairs = names.flat_map(|name| {
        let ips = name.resolved_addresses.iter();
        ips.map(|address| (name.dns_name.clone(), address.ip.to_string()))
    });
    pairs.collect()
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

    /// Creates one, like another client.
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

    pub(crate) async fn named(&self, name: &str) -> Result<Vec<DnsNameResolver>, String> {
        let listed = self.api.list(&kube::api::ListParams::default()).await;
        let mut objects = listed.map_err(|error| error.to_string())?.items;
        objects.retain(|object| object.spec.name == name);
        Ok(objects)
    }

    /// The addresses in the statuses of a name.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Addresses, String> {
        let objects = self.named(name).await?;
        Ok(objects.iter().flat_map(addresses).collect())
    }

    /// Waits until the statuses of a name have exactly these addresses.
    pub(crate) async fn expect(&self, name: &str, ips: &[&str]) {
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
    }
}

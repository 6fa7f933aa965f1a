//! The chart, installed in a cluster: its pods and CoreDNS's are processes, on nodes that forward to their ports.

mod objects;

use std::{
    collections::BTreeMap, fs, net::SocketAddr, path::PathBuf, process::Output, sync::Mutex,
};

use hickory_proto::rr::RecordType;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};
use tests::{
    chart::{self, COLLECTOR, OVN_WRITER},
    coredns::{CoreDns, free_port, write_zone},
    kube::ApiServer,
    network::Network,
    node::{Kubelet, Ports},
    northbound::Northbound,
    programs::{self, Program},
    wait::eventually,
    workdir::Workdir,
};
use tokio::process::Command;

pub(crate) use self::objects::{label, ovnkube};

/// The namespace of the chart.
pub(crate) const NAMESPACE: &str = "egress-by-name";

/// The namespace of the objects, and of ovn-kubernetes.
pub(crate) const OBJECTS: &str = "ovn-kubernetes";

pub(crate) const DNS_NAMESPACE: &str = "kube-system";

pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];

/// The collectors' Services, and the addresses of these.
pub(crate) const SERVICES: [(&str, &str); 2] = [
    (COLLECTOR, "10.96.0.53"),
    ("egress-by-name-collector-2", "10.96.0.54"),
];

/// The pods of CoreDNS.
pub(crate) const DNS_PODS: [&str; 2] = ["coredns-7d764666f9-4x8zk", "coredns-7d764666f9-9wqlp"];

/// The pod of ovn-kubernetes.
pub(crate) const OVNKUBE: &str = "ovnkube-node-8xk2p";

pub(crate) const NAME: &str = "www.example.com.";

pub(crate) const ADDRESS: &str = "203.0.113.1";

/// The chart's values: everything is on, for two nodes with a database each.
pub(crate) const VALUES: [&str; 4] = [
    "--set",
    "dnstap.clusterIPs={10.96.0.53,10.96.0.54}",
    "--set",
    "cluster.podNetworks={10.244.0.0/16}",
];

/// The Corefile in the cluster.
pub(crate) const COREFILE: &str = "\
.:53 {
    errors
    dnstap tcp://10.96.0.53:6000 full
    dnstap tcp://10.96.0.54:6000 full
    kubernetes cluster.local
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    reload
}
";

/// That of the processes: the same, without a cluster.
const PROCESS: &str = "\
.:{$DNS_PORT} {
    bind ADDRESS
    errors
    DNSTAP
    prometheus ADDRESS:9153
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    file example.com.zone example.com
}
";

/// A pod of the chart, and its process.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) ports: Ports,
}

/// Fields are in the order in which they are dropped.
pub(crate) struct Installation {
    pub(crate) coredns: Vec<CoreDns>,
    /// That of each CoreDNS: an EndpointSlice cannot have a loopback address.
    pub(crate) networks: Vec<Network>,
    pub(crate) collectors: Vec<Pod>,
    pub(crate) writers: Vec<Pod>,
    pub(crate) databases: Vec<Northbound>,
    pub(crate) kubelet: Kubelet,
    pub(crate) server: ApiServer,
    /// The dnstap port of each collector.
    dnstap: Vec<u16>,
    dns_folders: Vec<Workdir>,
    folders: Mutex<Vec<Workdir>>,
}

impl Installation {
    /// Installs everything, and waits until an address is in the sets of both nodes.
    ///
    /// # Errors
    /// The reason, if this process may not make networks.
    pub(crate) async fn start() -> Result<Self, String> {
        let dns_folders: Vec<_> = DNS_PODS.iter().map(|_| Workdir::new()).collect();
        let mut networks = Vec::new();
        for folder in &dns_folders {
            networks.push(Network::new(folder.path()).await?);
        }
        let server = ApiServer::start().await;
        let client = server.client().await;
        let kubelet = Kubelet::start(&server).await;
        for node in NODES {
            kubelet.register(node).await;
        }
        server.make_namespace(NAMESPACE).await;
        server.make_namespace(OBJECTS).await;
        label(&client, NAMESPACE, "privileged").await;
        for namespace in [DNS_NAMESPACE, OBJECTS] {
            server.make_account(namespace, "default").await;
        }
        let objects = chart::render(NAMESPACE, &VALUES);
        for object in &objects {
            server.make(object).await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
        let map = json!({ "metadata": { "name": "coredns" }, "data": { "Corefile": COREFILE } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let service = json!({ "metadata": { "name": "kube-dns" }, "spec": {
            "clusterIP": "10.96.0.10",
            "selector": { "k8s-app": "kube-dns" },
            "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }],
        }});
        let service: Service = serde_json::from_value(service).unwrap();
        let services: Api<Service> = Api::namespaced(client.clone(), DNS_NAMESPACE);
        let post = PostParams::default();
        services.create(&post, &service).await.unwrap();
        let (template, ip) = (ovnkube(false), "10.244.0.9");
        kubelet
            .run((OBJECTS, OVNKUBE), NODES[0], &template, ip)
            .await;
        server.make_namespace("team").await;
        server.allow("team", &[NAME]).await;
        let mut it = Self {
            coredns: Vec::new(),
            networks,
            collectors: Vec::new(),
            writers: Vec::new(),
            databases: Vec::new(),
            kubelet,
            server,
            dnstap: SERVICES.map(|_| free_port().port()).to_vec(),
            dns_folders,
            folders: Mutex::default(),
        };
        it.run_all(&objects).await;
        it.settles().await;
        Ok(it)
    }

    async fn run_all(&mut self, objects: &[DynamicObject]) {
        self.serve_dns().await;
        for account in [COLLECTOR, OVN_WRITER] {
            self.server.config_of(NAMESPACE, account).await;
        }
        for (index, (service, _)) in SERVICES.into_iter().enumerate() {
            let more = self.listeners(index);
            let template = &chart::find(objects, "Deployment", service).data["spec"]["template"];
            let name = format!("{service}-6c9d487cd4-x{index}");
            let pod = self
                .run((&name, index), template, (COLLECTOR, 9092), &more)
                .await;
            self.collectors.push(pod);
        }
        let template = &chart::find(objects, "DaemonSet", OVN_WRITER).data["spec"]["template"];
        for index in 0..NODES.len() {
            let folder = Workdir::new();
            let database = Northbound::start(folder.path()).await;
            database.create_acls(&[NAME.to_owned()], true);
            let more = [format!("--nb={}", database.remote())];
            self.databases.push(database);
            self.folders.lock().unwrap().push(folder);
            let name = format!("{OVN_WRITER}-5w9k{index}");
            let pod = self
                .run((&name, index), template, (OVN_WRITER, 9093), &more)
                .await;
            self.writers.push(pod);
        }
        for pod in self.collectors.iter().chain(&self.writers) {
            pod.program.ready().await;
        }
        for index in 0..DNS_PODS.len() {
            self.run_coredns(index).await;
        }
    }

    /// Where CoreDNS reaches a collector.
    fn listeners(&self, index: usize) -> Vec<String> {
        let port = self.dnstap[index];
        let networks = self.networks.iter();
        networks
            .map(|it| format!("--listen=tcp://{}", SocketAddr::new(it.outside(), port)))
            .collect()
    }

    /// The DNS Service's EndpointSlice, as the controller-manager makes it.
    async fn serve_dns(&self) {
        let client = self.server.client().await;
        let slices: Api<EndpointSlice> = Api::namespaced(client, DNS_NAMESPACE);
        let networks = self.networks.iter();
        let endpoints = networks.map(|it| json!({ "addresses": [it.inside()] }));
        let slice = json!({
            "metadata": { "name": "kube-dns-2xk4p", "labels": { "kubernetes.io/service-name": "kube-dns" } },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<_>>(),
            "ports": [{ "name": "dns", "port": 5353, "protocol": "UDP" }],
        });
        let slice = serde_json::from_value(slice).unwrap();
        slices.create(&PostParams::default(), &slice).await.unwrap();
    }

    /// Starts the process of a pod of the chart, and the pod.
    async fn run(
        &mut self,
        (name, index): (&str, usize),
        template: &Value,
        (account, port): (&str, u16),
        more: &[String],
    ) -> Pod {
        let (program, ports) = self
            .start_program((name, index), template, (account, port), more)
            .await;
        let key = (NAMESPACE, name);
        let ip = pod_ip(index, port);
        self.kubelet.run(key, NODES[index], template, &ip).await;
        self.kubelet.connect(key, &ports);
        Pod {
            name: name.to_owned(),
            program,
            ports,
        }
    }

    /// Starts the process of a pod of the chart, with its flags but for those about its network.
    async fn start_program(
        &self,
        (name, index): (&str, usize),
        template: &Value,
        (account, port): (&str, u16),
        more: &[String],
    ) -> (Program, Ports) {
        let container = &template["spec"]["containers"][0];
        let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        let elsewhere = [
            "--admin=",
            "--log-format=",
            "--listen=",
            "--inspect=",
            "--nb=",
        ];
        let is_kept = |arg: &String| !elsewhere.iter().any(|flag| arg.starts_with(flag));
        let inspect = free_port();
        let more = more.iter().cloned();
        let args = args.into_iter().filter(is_kept).chain(more);
        let args = args.chain([format!("--inspect=tcp://{inspect}")]).collect();
        let (node, ip) = (NODES[index], pod_ip(index, port));
        let kubeconfig = self.server.folder().join(format!("{account}.kubeconfig"));
        let environment = vec![
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("POD_NAME", name.to_owned()),
            ("POD_IPS", ip.clone()),
            ("NODE_NAME", node.to_owned()),
        ];
        let folder = Workdir::new();
        let command = match account {
            COLLECTOR => "collector",
            _ => "ovn-writer",
        };
        let program = Program::start_with(folder.path(), command, args, environment).await;
        let ports = Ports {
            ports: BTreeMap::from([(port, inspect.port())]),
            logs: BTreeMap::from([(command.to_owned(), folder.join(format!("{command}.log")))]),
        };
        self.folders.lock().unwrap().push(folder);
        (program, ports)
    }

    async fn run_coredns(&mut self, index: usize) {
        let (name, ip) = (DNS_PODS[index], self.networks[index].inside());
        let folder = &self.dns_folders[index];
        write_zone(
            &folder.join("example.com.zone"),
            "example.com.",
            1,
            &format!("www IN A {ADDRESS}\nof-others IN A 203.0.113.2"),
        );
        let outside = self.networks[index].outside();
        let addresses = self
            .dnstap
            .iter()
            .map(|port| SocketAddr::new(outside, *port));
        let lines = addresses.map(|it| format!("dnstap tcp://{it} full"));
        let corefile = PROCESS
            .replace("ADDRESS", &ip.to_string())
            .replace("DNSTAP", &lines.collect::<Vec<_>>().join("\n    "));
        fs::write(folder.join("Corefile"), corefile).unwrap();
        let coredns = CoreDns::start_in(folder.path(), &self.networks[index]).await;
        self.coredns.push(coredns);
        let template = json!({
            "metadata": { "labels": { "k8s-app": "kube-dns" } },
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "coredns",
                    "image": "registry.k8s.io/coredns/coredns:v1.14.7",
                    "ports": [{ "name": "metrics", "containerPort": 9153 }],
                }],
            },
        });
        let (key, node) = ((DNS_NAMESPACE, name), NODES[index]);
        let ip_text = ip.to_string();
        self.kubelet.run(key, node, &template, &ip_text).await;
        // The kubelet reaches ports of 127.0.0.1.
    }

    /// Waits until the address is in the sets of both nodes.
    async fn settles(&self) {
        eventually("the address is in all sets", async || {
            self.coredns[0].ask(NAME, RecordType::A).await;
            for database in &self.databases {
                let rows = database.rows()?;
                if !rows.iter().any(|row| row.addresses.contains(ADDRESS)) {
                    return Err(format!("{rows:?}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Runs `egress` as an administrator of the cluster.
    pub(crate) async fn egress(&self, args: &[&str]) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(programs::program("egress"))
            .args(args)
            .env("KUBECONFIG", self.server.kubeconfig())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = [stdout, stderr].concat();
        (status.code(), String::from_utf8(text).unwrap())
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.server.folder().to_owned()
    }
}

/// The address of a pod of the chart, by its node and its inspect port.
fn pod_ip(node: usize, port: u16) -> String {
    format!("10.244.{node}.{}", port - 9090)
}

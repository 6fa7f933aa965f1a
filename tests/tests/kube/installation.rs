//! The chart, installed in a cluster: its pods and CoreDNS's are processes, on nodes that forward to their ports.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Output,
};

use hickory_proto::rr::RecordType;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use proto::api::EgressFirewall;
use serde_json::{Value, json};
use tests::{
    chart::{self, COLLECTOR, OVN_WRITER},
    coredns::{CoreDns, free_port, write_zone},
    kube::ApiServer,
    node::{Kubelet, Ports},
    northbound::Northbound,
    programs::{self, Program},
    wait::eventually,
    workdir::Workdir,
};
use tokio::process::Command;

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

/// The pods of CoreDNS. Loopback addresses tell the servers apart.
pub(crate) const DNS_PODS: [(&str, Ipv4Addr); 2] = [
    ("coredns-7d764666f9-4x8zk", Ipv4Addr::new(127, 0, 0, 2)),
    ("coredns-7d764666f9-9wqlp", Ipv4Addr::new(127, 0, 0, 3)),
];

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
    bind 127.0.0.1 ADDRESS
    errors
    DNSTAP
    prometheus 127.0.0.1:METRICS
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
    pub(crate) collectors: Vec<Pod>,
    pub(crate) writers: Vec<Pod>,
    pub(crate) databases: Vec<Northbound>,
    pub(crate) kubelet: Kubelet,
    pub(crate) server: ApiServer,
    dnstap: Vec<SocketAddr>,
    dns_folders: Vec<Workdir>,
    folders: Vec<Workdir>,
}

impl Installation {
    /// Installs everything, and waits until an address is in the sets of both nodes.
    pub(crate) async fn start() -> Self {
        let server = ApiServer::start().await;
        let client = server.client().await;
        let kubelet = Kubelet::start(&server).await;
        for node in NODES {
            kubelet.register(node).await;
        }
        server.make_namespace(NAMESPACE).await;
        server.make_namespace(OBJECTS).await;
        label(&client, NAMESPACE, "privileged").await;
        // The controller-manager makes it in every namespace.
        for namespace in [DNS_NAMESPACE, OBJECTS] {
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
            let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }));
            let post = PostParams::default();
            accounts.create(&post, &account.unwrap()).await.unwrap();
        }
        let objects = chart::render(NAMESPACE, &VALUES);
        for object in &objects {
            server.make(object).await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
        let map = json!({ "metadata": { "name": "coredns" }, "data": { "Corefile": COREFILE } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let firewall = json!({
            "metadata": { "name": "default" },
            "spec": { "egress": [{ "type": "Allow", "to": { "dnsName": NAME } }] },
        });
        server.make_namespace("team").await;
        let firewalls: Api<EgressFirewall> = Api::namespaced(client.clone(), "team");
        let firewall = serde_json::from_value(firewall).unwrap();
        let post = PostParams::default();
        firewalls.create(&post, &firewall).await.unwrap();
        let mut it = Self {
            coredns: Vec::new(),
            collectors: Vec::new(),
            writers: Vec::new(),
            databases: Vec::new(),
            kubelet,
            server,
            dnstap: SERVICES.map(|_| free_port()).to_vec(),
            dns_folders: Vec::new(),
            folders: Vec::new(),
        };
        it.run_all(&objects).await;
        it.settles().await;
        it
    }

    async fn run_all(&mut self, objects: &[DynamicObject]) {
        let servers = DNS_PODS.map(|(_, ip)| SocketAddr::from((ip, free_port().port())));
        for account in [COLLECTOR, OVN_WRITER] {
            self.server.config_of(NAMESPACE, account).await;
        }
        for (index, (service, _)) in SERVICES.into_iter().enumerate() {
            let more = [
                format!("--listen=tcp://{}", self.dnstap[index]),
                format!("--resolver={},{}", servers[0], servers[1]),
            ];
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
            self.folders.push(folder);
            let name = format!("{OVN_WRITER}-5w9k{index}");
            let pod = self
                .run((&name, index), template, (OVN_WRITER, 9093), &more)
                .await;
            self.writers.push(pod);
        }
        for pod in self.collectors.iter().chain(&self.writers) {
            pod.program.ready().await;
        }
        for (index, server) in servers.iter().enumerate() {
            self.run_coredns(index, *server).await;
        }
    }

    /// Starts the process of a pod of the chart, with its flags but for those about its network, and the pod.
    async fn run(
        &mut self,
        (name, index): (&str, usize),
        template: &Value,
        (account, port): (&str, u16),
        more: &[String],
    ) -> Pod {
        let container = &template["spec"]["containers"][0];
        let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        let elsewhere = [
            "--admin=",
            "--log-format=",
            "--listen=",
            "--inspect=",
            "--control=",
            "--nb=",
            "--resolver-service=",
        ];
        let is_kept = |arg: &String| !elsewhere.iter().any(|flag| arg.starts_with(flag));
        let inspect = free_port();
        let more = more.iter().cloned();
        let args = args.into_iter().filter(is_kept).chain(more);
        let args = args.chain([format!("--inspect=tcp://{inspect}")]).collect();
        let (node, ip) = (NODES[index], format!("10.244.{index}.{}", port - 9090));
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
        self.folders.push(folder);
        let key = (NAMESPACE, name);
        self.kubelet.run(key, node, template, &ip).await;
        self.kubelet.connect(key, &ports);
        Pod {
            name: name.to_owned(),
            program,
            ports,
        }
    }

    async fn run_coredns(&mut self, index: usize, address: SocketAddr) {
        let (name, ip) = DNS_PODS[index];
        let folder = Workdir::new();
        write_zone(
            &folder.join("example.com.zone"),
            "example.com.",
            1,
            &format!("www IN A {ADDRESS}"),
        );
        let metrics = free_port();
        let corefile = PROCESS
            .replace("ADDRESS", &ip.to_string())
            .replace("METRICS", &metrics.port().to_string());
        fs::write(folder.join("Corefile.without"), corefile).unwrap();
        self.dns_folders.push(folder);
        self.write_corefile(index, true);
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
        let folder = self.dns_folders[index].path();
        self.coredns.push(CoreDns::start_at(folder, loopback).await);
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
        let key = (DNS_NAMESPACE, name);
        let node = NODES[index];
        self.kubelet
            .run(key, node, &template, &ip.to_string())
            .await;
        self.set_dns_metrics(index, metrics.port());
    }

    /// The port with the metrics of a CoreDNS pod from now on.
    pub(crate) fn set_dns_metrics(&self, index: usize, port: u16) {
        let ports = Ports {
            ports: BTreeMap::from([(9153, port)]),
            logs: BTreeMap::new(),
        };
        self.kubelet
            .connect((DNS_NAMESPACE, DNS_PODS[index].0), &ports);
    }

    fn write_corefile(&self, index: usize, streams: bool) {
        let folder = &self.dns_folders[index];
        let text = fs::read_to_string(folder.join("Corefile.without")).unwrap();
        let lines = self.dnstap.iter();
        let lines: Vec<String> = lines.map(|it| format!("dnstap tcp://{it} full")).collect();
        let lines = if streams {
            lines.join("\n    ")
        } else {
            String::new()
        };
        fs::write(folder.join("Corefile"), text.replace("DNSTAP", &lines)).unwrap();
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
        self.egress_as(&self.server.kubeconfig(), args).await
    }

    pub(crate) async fn egress_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
    ) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(programs::program("egress"))
            .args(args)
            .env("KUBECONFIG", kubeconfig)
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

/// Sets the level of Pod Security that a namespace enforces.
pub(crate) async fn label(client: &Client, namespace: &str, level: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = json!({ "pod-security.kubernetes.io/enforce": level });
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    let params = PatchParams::default();
    namespaces.patch(namespace, &params, &patch).await.unwrap();
}

//! DNS servers on the host network: they share the address of their Node with other programs.

use std::{fs, net::SocketAddr};

use k8s_openapi::api::{core::v1::Node, discovery::v1::EndpointSlice, events::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    admin::get_over_unix,
    coredns::{CoreDns, free_port},
    kube::ApiServer,
    network::Network,
    or_skip,
    pki::{Authority, Validity},
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use crate::{
    collectors::{Objects, allow},
    guards::{add_node, set_status},
};

const NAMES: [&str; 4] = [
    "one.example.com.",
    "two.example.com.",
    "three.example.com.",
    "four.example.com.",
];

const ANSWER: &str = "203.0.113.7";

const SECRET: &str = "0123456789abcdef";

const REFUSED: &str = "egress_collector_connection_errors_total";

/// CoreDNS itself answers a probe of its block, which flushes its stream.
const COREFILE: &str = r#"
.:{$DNS_PORT} {
    bind ADDRESS
    dnstap ENDPOINT full {
        extra SECRET
    }
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    template IN A example.com {
        answer "{{ .Name }} 300 IN A ANSWER"
    }
}
"#;

/// A collector that gets answers over dnstap only.
struct Collector {
    program: Program,
    workdir: Workdir,
}

impl Collector {
    async fn start(server: &ApiServer, namespace: &str, more: &[&str]) -> Self {
        let workdir = Workdir::new();
        let service = format!("{namespace}/dns");
        let inspect = format!("unix://{}", workdir.join("inspect.sock").display());
        let args = [
            "--store",
            "kube",
            "--objects-namespace",
            namespace,
            "--resolver-service",
            &service,
            "--resolver",
            "none",
            "--unknown-peer-wait",
            "1s",
            "--inspect",
            &inspect,
        ];
        let args = args.iter().chain(more);
        let args = args.map(|flag| (*flag).to_owned()).collect();
        let environment = vec![("KUBECONFIG", server.kubeconfig().display().to_string())];
        let program = Program::start_with(workdir.path(), "collector", args, environment).await;
        program.ready().await;
        Self { program, workdir }
    }

    async fn status(&self) -> Value {
        let socket = self.workdir.join("inspect.sock");
        let (_, body) = get_over_unix(&socket, "/status.json").await.unwrap();
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until these DNS servers are listed as refused, with advice.
    async fn shows_refused(&self, servers: &[String]) {
        eventually(&format!("{servers:?} are shown"), async || {
            let status = self.status().await;
            let shown = status["refusedDnsServers"].as_array().unwrap();
            let is_advised = |it: &&Value| {
                let words = it["words"].as_str().unwrap();
                it["reason"] == "host_network" && words.contains("--insecure-host-network")
            };
            let shown = shown.iter().filter(is_advised);
            let shown: Vec<_> = shown.filter_map(|it| it["server"].as_str()).collect();
            (shown == servers)
                .then_some(())
                .ok_or_else(|| format!("{shown:?}"))
        })
        .await;
    }

    async fn refuses(&self, least: f64) {
        let labels = ["reason=\"host_network\""];
        self.program.counts(REFUSED, &labels, least).await;
    }

    fn log_lines(&self, part: &str) -> usize {
        let messages = self.program.messages();
        let lines = messages.iter().map(ToString::to_string);
        lines.filter(|line| line.contains(part)).count()
    }
}

/// Sends queries for the name until the answer is in the status of its object.
async fn hears(coredns: &CoreDns, objects: &Objects, name: &str) {
    let wanted = (name.to_owned(), ANSWER.to_owned());
    eventually(&format!("the answer for {name} is heard"), async || {
        coredns.look_up(name).await;
        let found = objects.addresses(name).await?;
        found
            .contains(&wanted)
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_network_dns_server_is_heard_over_tls_with_a_secret_or_a_flag() {
    let workdir = Workdir::new();
    let network = or_skip!(Network::new(workdir.path()).await);
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let objects = Objects::of(&server, &namespace).await;
    for (i, name) in NAMES.into_iter().enumerate() {
        objects.make(&format!("dns-{i}"), name).await;
    }
    allow(&server, &namespace, &NAMES).await;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let slice = json!({
        "metadata": { "name": "dns", "labels": { "kubernetes.io/service-name": "dns" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [network.inside().to_string()] }],
        "ports": [{ "name": "dns", "port": 5353, "protocol": "UDP" }],
    });
    let slice = serde_json::from_value(slice).unwrap();
    slices.create(&PostParams::default(), &slice).await.unwrap();

    let host = network.outside();
    let authority = Authority::new(workdir.path());
    let side = authority.sign("collector", &[&host.to_string()], Validity::Now);
    let secret = workdir.join("secret");
    fs::write(&secret, SECRET).unwrap();
    let [plain, encrypted] = ["tcp", "tls"]
        .map(|scheme| format!("{scheme}://{}", SocketAddr::new(host, free_port().port())));
    let corefile = |endpoint: &str| {
        let text = COREFILE
            .replace("ADDRESS", &network.inside().to_string())
            .replace("ENDPOINT", endpoint)
            .replace("SECRET", SECRET)
            .replace("ANSWER", ANSWER);
        fs::write(workdir.join("Corefile"), text).unwrap();
    };
    let listen = format!("{plain},{encrypted}");
    let flags = [
        "--listen",
        &listen,
        "--certificate",
        side.certificate.to_str().unwrap(),
        "--private-key",
        side.key.to_str().unwrap(),
        "--secret-file",
        secret.to_str().unwrap(),
    ];
    let collector = Collector::start(&server, &namespace, &flags).await;
    corefile(&plain);
    let mut coredns = CoreDns::start_in(workdir.path(), &network).await;
    hears(&coredns, &objects, NAMES[0]).await;

    // The address turns out to be a Node's.
    add_node(&server, "a", "10.244.1.0/24").await;
    let address = network.inside().to_string();
    set_status(&server, "a", &[("InternalIP", &address)]).await;
    collector.refuses(1.0).await;
    collector
        .shows_refused(std::slice::from_ref(&address))
        .await;
    // CoreDNS redials, and its events meanwhile do not count.
    coredns.restart().await;
    coredns.look_up(NAMES[1]).await;
    collector.refuses(2.0).await;
    assert!(objects.addresses(NAMES[1]).await.unwrap().is_empty());
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    eventually("an Event on the Service says so", async || {
        let all = events.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let is_it = |event: &Event| {
            let about = event.regarding.clone().unwrap_or_default();
            let note = event.note.clone().unwrap_or_default();
            (about.kind.as_deref(), about.name.as_deref()) == (Some("Service"), Some("dns"))
                && event.reason.as_deref() == Some("HostNetworkRefused")
                && note.contains(&address)
                && note.contains("--insecure-host-network")
        };
        let said = all.iter().any(is_it);
        said.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;
    assert_eq!(collector.log_lines("dnstap stream refused"), 1);

    // Over TLS it is accepted, and probes flush its stream like any other.
    corefile(&encrypted);
    coredns.restart().await;
    hears(&coredns, &objects, NAMES[1]).await;
    collector.shows_refused(&[]).await;
    eventually("its stream is flushed", async || {
        let status = collector.status().await;
        let state = &status["dnsBlocks"][0]["state"];
        (state == "flushed").then_some(()).ok_or(state.to_string())
    })
    .await;

    // Pods of a deleted Node run for a while.
    corefile(&plain);
    coredns.restart().await;
    collector
        .shows_refused(std::slice::from_ref(&address))
        .await;
    let nodes: Api<Node> = Api::all(client);
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    coredns.restart().await;
    collector.refuses(4.0).await;
    // A collector that never knew the address as a Node's accepts plain TCP.
    drop(collector);
    let collector = Collector::start(&server, &namespace, &flags).await;
    coredns.restart().await;
    hears(&coredns, &objects, NAMES[2]).await;

    // With the flag, and no secret file, it needs neither.
    drop(collector);
    add_node(&server, "a", "10.244.1.0/24").await;
    set_status(&server, "a", &[("InternalIP", &address)]).await;
    let flags = ["--listen", &plain, "--insecure-host-network"];
    let collector = Collector::start(&server, &namespace, &flags).await;
    coredns.restart().await;
    hears(&coredns, &objects, NAMES[3]).await;
    collector.shows_refused(&[]).await;
    let labels = ["reason=\"host_network\""];
    let refused = collector.program.admin().metric(REFUSED, &labels).await;
    assert_eq!(refused.unwrap(), 0.0);
}

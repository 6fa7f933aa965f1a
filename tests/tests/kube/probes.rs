//! Flush probes of two collectors: each probes the servers of the DNS Service for itself.

use std::{fs, net::SocketAddr};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, api::PostParams};
use proto::api::EgressFirewall;
use serde_json::{Value, json};
use tests::{
    admin::get_over_unix,
    coredns::{CoreDns, free_port},
    kube::ApiServer,
    network::Network,
    or_skip,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

const DELAYS: &str = "egress_collector_flush_delay_seconds_count";
const NOT_STREAMING: &str = "egress_collector_dns_block_not_streaming";

/// A stream to each collector.
const COREFILE: &str = "
.:{$DNS_PORT} {
    bind ADDRESS
    dnstap tcp://FIRST full
    dnstap tcp://SECOND full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
}
";

struct Collector {
    program: Program,
    folder: Workdir,
}

impl Collector {
    async fn start(server: &ApiServer, namespace: &str, listener: SocketAddr) -> Self {
        let folder = Workdir::new();
        let args = [
            "--store",
            "kube",
            "--objects-namespace",
            namespace,
            "--listen",
            &format!("tcp://{listener}"),
            "--resolver-service",
            &format!("{namespace}/dns"),
            "--peer-service",
            &format!("{namespace}/collectors"),
            "--inspect",
            &format!("unix://{}", folder.join("inspect.sock").display()),
        ];
        let environment = vec![("KUBECONFIG", server.kubeconfig().display().to_string())];
        let args = args.map(str::to_owned).to_vec();
        let program = Program::start_with(folder.path(), "collector", args, environment).await;
        program.ready().await;
        Self { program, folder }
    }

    async fn state(&self) -> Result<String, String> {
        let socket = self.folder.join("inspect.sock");
        let (_, body) = get_over_unix(&socket, "/status.json").await.unwrap();
        let status: Value = serde_json::from_str(&body).unwrap();
        let blocks = status["collector"]["streams"].as_array().unwrap();
        let state = blocks.first().and_then(|block| block["state"].as_str());
        state.map(str::to_owned).ok_or(body)
    }

    /// The number of series about servers.
    async fn series(&self) -> usize {
        let (_, metrics) = self.program.admin().get("/metrics").await.unwrap();
        metrics.matches(&format!("{NOT_STREAMING}{{")).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_collectors_probes_the_servers_of_the_dns_service() {
    let workdir = Workdir::new();
    let network = or_skip!(Network::new(workdir.path()).await);
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let firewalls: Api<EgressFirewall> = Api::namespaced(client, &namespace);
    // Both collectors run on one host and query from its address.
    let of_dns = ("dns", network.inside());
    for (service, address) in [of_dns, ("collectors", network.outside())] {
        let slice = json!({
            "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [address.to_string()] }],
            "ports": [{ "name": "dns", "port": 5353, "protocol": "UDP" }],
        });
        let slice = serde_json::from_value(slice).unwrap();
        slices.create(&PostParams::default(), &slice).await.unwrap();
    }
    let firewall = json!({
        "metadata": { "name": "default" },
        "spec": { "egress": [{ "type": "Allow", "to": { "dnsName": "www.example.com" } }] },
    });
    let firewall = serde_json::from_value(firewall).unwrap();
    let post = PostParams::default();
    firewalls.create(&post, &firewall).await.unwrap();

    let listener = || SocketAddr::new(network.outside(), free_port().port());
    let (first, second) = (listener(), listener());
    let corefile = COREFILE
        .replace("ADDRESS", &network.inside().to_string())
        .replace("FIRST", &first.to_string())
        .replace("SECOND", &second.to_string());
    fs::write(workdir.join("Corefile"), corefile).unwrap();
    let first = Collector::start(&server, &namespace, first).await;
    let second = Collector::start(&server, &namespace, second).await;
    let _coredns = CoreDns::start_in(workdir.path(), &network).await;

    for collector in [&first, &second] {
        eventually("it receives the stream", async || {
            let state = collector.state().await?;
            (state == "streaming").then_some(()).ok_or(state)
        })
        .await;
        collector.program.counts(DELAYS, &[], 20.0).await;
        assert_eq!(collector.series().await, 1);
        let admin = collector.program.admin();
        assert_eq!(admin.metric(NOT_STREAMING, &[]).await.unwrap(), 0.0);
    }
    slices.delete("dns", &Default::default()).await.unwrap();
    eventually("no series of the server that went is left", async || {
        let left = first.series().await;
        (left == 0).then_some(()).ok_or(left.to_string())
    })
    .await;
}

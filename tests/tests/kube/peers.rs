//! The allowed peers over TCP in a cluster: the DNS servers in EndpointSlices.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, api::PostParams};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::json;
use tests::{
    dnstap::{Sender, data, event, response},
    kube::ApiServer,
    network::Network,
    or_skip,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

const NAME: &str = "www.example.com.";

fn slice(service: &str, address: IpAddr) -> EndpointSlice {
    let slice = json!({
        "metadata": { "name": "dns", "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address.to_string()], "conditions": { "ready": false } }],
        "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }],
    });
    serde_json::from_value(slice).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_missing_in_slices_is_read_once_it_is_listed() {
    let workdir = Workdir::new();
    let network = or_skip!(Network::new(workdir.path()).await);
    let address = network.outside();
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let client = server.client().await;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let objects: Api<DnsNameResolver> = Api::namespaced(client.clone(), &namespace);
    let firewalls: Api<EgressFirewall> = Api::namespaced(client, &namespace);
    let listener = SocketAddr::new(address, tests::coredns::free_port().port());
    let service = format!("{namespace}/dns");
    let args = [
        "--store",
        "kube",
        "--objects-namespace",
        &namespace,
        "--listen",
        &format!("tcp://{listener}"),
        "--resolver-service",
        &service,
    ];
    let environment = vec![("KUBECONFIG", server.kubeconfig().display().to_string())];
    let args = args.map(str::to_owned).to_vec();
    let collector = Program::start_with(workdir.path(), "collector", args, environment).await;
    collector.ready().await;
    let firewall = json!({
        "metadata": { "name": "default" },
        "spec": { "egress": [{ "type": "Allow", "to": { "dnsName": NAME } }] },
    });
    let firewall = serde_json::from_value(firewall).unwrap();
    firewalls
        .create(&PostParams::default(), &firewall)
        .await
        .unwrap();
    // The object is there for the readers to match; in a cluster others may create it first.
    eventually("the object is made", async || {
        let all = objects.list(&Default::default()).await;
        let all = all.map_err(|error| error.to_string())?;
        all.iter()
            .any(|object| object.spec.name == NAME)
            .then_some(())
            .ok_or_else(|| "it is not".to_owned())
    })
    .await;

    let known = async || {
        let all = objects.list(&Default::default()).await.unwrap();
        let status = all.items.into_iter().filter_map(|object| object.status);
        let entries = status.flat_map(|status| status.resolved_names);
        let addresses = entries.flat_map(|entry| entry.resolved_addresses);
        addresses.map(|address| address.ip).collect::<Vec<_>>()
    };
    let frame = |last| data(&event(response(NAME, Ipv4Addr::new(203, 0, 113, last))));
    let mut early = Sender::connect_from(address, listener).await;
    // It is accepted at once.
    early.handshake().await;
    early.send(&frame(1)).await.unwrap();
    assert_eq!(known().await, Vec::<String>::new());
    let listed = slice("dns", address);
    slices
        .create(&PostParams::default(), &listed)
        .await
        .unwrap();
    eventually("what it said counts", async || {
        let known = known().await;
        (known == ["203.0.113.1"])
            .then_some(())
            .ok_or_else(|| format!("{known:?}"))
    })
    .await;
}

//! Runs what the commands of a section installed, in place of kubelets: the collectors and the ovn-writer with the arguments of their pods,
//! and CoreDNS with each Corefile that has the collectors' lines. The way of an answer ends in the northbound database.

use std::{fs, net::SocketAddr};

use hickory_proto::rr::RecordType;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Service},
};
use kube::{Api, api::ListParams};
use proto::api::{DnsNameResolver, Family};
use serde_json::Value;
use tests::{
    chart::{COLLECTOR, OVN_WRITER},
    coredns::{CoreDns, free_port},
    kube::ApiServer,
    northbound::Northbound,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use super::{NAMESPACE, works};
use crate::{deployments::listens, nameserver::NameServer};

/// The name of the rule on the page.
const NAME: &str = "www.example.com.";

/// Plugins that need the network of a cluster, or a port of their own.
const OF_A_CLUSTER: [&str; 6] = [
    "kubernetes",
    "health",
    "ready",
    "prometheus",
    "loop",
    "reload",
];

/// The addresses of the collectors' Services.
async fn addresses(server: &ApiServer) -> Vec<String> {
    let services: Api<Service> = Api::namespaced(server.client().await, NAMESPACE);
    let mut found = Vec::new();
    for name in [COLLECTOR.to_owned(), format!("{COLLECTOR}-2")] {
        let service = services.get_opt(&name).await.unwrap();
        found.extend(service.and_then(|service| service.spec?.cluster_ip));
    }
    found
}

/// The Corefiles that name all collectors: in ConfigMaps, or in the folder that stands for a repository.
pub(super) async fn corefiles(server: &ApiServer, workdir: &Workdir) -> Vec<String> {
    let addresses = addresses(server).await;
    let maps: Api<ConfigMap> = Api::all(server.client().await);
    let maps = maps.list(&ListParams::default()).await.unwrap();
    let texts = maps
        .into_iter()
        .flat_map(|map| map.data.unwrap_or_default());
    let mut texts: Vec<String> = texts.map(|(_, text)| text).collect();
    texts.extend(fs::read_to_string(workdir.join("Corefile.new")));
    let line = |address: &String| format!("dnstap tcp://{address}:6000 full");
    texts.retain(|text| {
        !addresses.is_empty() && addresses.iter().all(|it| text.contains(&line(it)))
    });
    texts
}

/// The same, on a port of this machine, and with these collectors.
fn here(corefile: &str, upstream: SocketAddr, collectors: &[(String, SocketAddr)]) -> String {
    // k3s imports the lines into a block.
    let whole = match corefile.contains('{') {
        true => corefile.to_owned(),
        false => format!(".:53 {{\n{corefile}\nforward . /etc/resolv.conf\n}}\n"),
    };
    let (mut lines, mut is_left_out) = (Vec::new(), false);
    for line in whole.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        if is_left_out {
            is_left_out = word != "}";
        } else if word == "forward" || OF_A_CLUSTER.contains(&word) {
            is_left_out = line.ends_with('{');
            lines.extend((word == "forward").then(|| format!("forward . {upstream}")));
        } else {
            let is_block = line.ends_with('{') && !line.starts_with(' ');
            let ports = line.replace(":5353 {", ":53 {");
            lines.push(ports.replace(":53 {", ":{$DNS_PORT} {"));
            lines.extend(is_block.then(|| "bind 127.0.0.1".to_owned()));
        }
    }
    let mut text = lines.join("\n") + "\n";
    for (service, address) in collectors {
        text = text.replace(
            &format!("tcp://{service}:6000"),
            &format!("tcp://{address}"),
        );
    }
    text
}

/// The arguments of a workload's pods, but for those about the network and the log.
fn args(spec: &Value, here: &[String]) -> Vec<String> {
    let args = &spec["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = serde_json::from_value(args.clone()).unwrap();
    const ELSEWHERE: [&str; 6] = [
        "--admin=",
        "--log-format=",
        "--listen=",
        "--inspect=",
        "--nb=",
        "--resolver-service=",
    ];
    let is_kept = |arg: &String| !ELSEWHERE.iter().any(|flag| arg.starts_with(flag));
    args.into_iter()
        .filter(is_kept)
        .chain(here.iter().cloned())
        .collect()
}

async fn kubeconfig(server: &ApiServer, account: &str) -> (&'static str, String) {
    server.config_of(NAMESPACE, account).await;
    let file = server.folder().join(format!("{account}.kubeconfig"));
    ("KUBECONFIG", file.display().to_string())
}

/// Applies the first rule of the page, and follows an answer of each CoreDNS into the status and into the row.
pub(super) async fn works_to_the_end(
    server: ApiServer,
    workdir: Workdir,
    corefiles: Vec<String>,
    rule: String,
) {
    // It knows no address, so that all come by the streams.
    let lookups = NameServer::start().await;
    let deployments: Api<Deployment> = Api::namespaced(server.client().await, NAMESPACE);
    let account = kubeconfig(&server, COLLECTOR).await;
    let (mut collectors, mut programs, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    let names = [COLLECTOR.to_owned(), format!("{COLLECTOR}-2")];
    for (name, service) in names.iter().zip(addresses(&server).await) {
        let spec = deployments.get(name).await.unwrap().spec;
        let here = [
            "--listen=tcp://127.0.0.1:0".to_owned(),
            "--allow-peer=127.0.0.0/8".to_owned(),
            format!("--resolver={}", lookups.address()),
        ];
        let args = args(&serde_json::to_value(spec).unwrap(), &here);
        let folder = Workdir::new();
        let environment = vec![account.clone(), ("POD_NAME", name.clone())];
        let program = Program::start_with(folder.path(), "collector", args, environment).await;
        program.ready().await;
        collectors.push((service, listens(&program)));
        programs.push(program);
        folders.push(folder);
    }
    let folder = Workdir::new();
    let northbound = Northbound::start(folder.path()).await;
    northbound.create_acls(&[NAME.to_owned()], true);
    let sets: Api<DaemonSet> = Api::namespaced(server.client().await, NAMESPACE);
    let spec = sets.get(OVN_WRITER).await.unwrap().spec;
    let here_too = [format!("--nb={}", northbound.remote())];
    let args = args(&serde_json::to_value(spec).unwrap(), &here_too);
    let environment = vec![
        kubeconfig(&server, OVN_WRITER).await,
        ("POD_NAME", "a".to_owned()),
    ];
    programs.push(Program::start_with(folder.path(), "ovn-writer", args, environment).await);

    works("the first rule", &rule, &server, &workdir);
    let objects: Api<DnsNameResolver> = Api::all(server.client().await);
    for (number, corefile) in corefiles.iter().enumerate() {
        let (upstream, folder) = (NameServer::start().await, Workdir::new());
        let address = format!("203.0.113.{number}");
        upstream.set(NAME, &[&address], 3600);
        let text = here(corefile, upstream.address(), &collectors);
        fs::write(folder.join("Corefile"), text).unwrap();
        let coredns = CoreDns::start_at(folder.path(), free_port()).await;
        eventually("the answer is in the status and in the row", async || {
            coredns.ask(NAME, RecordType::A).await;
            let listed = objects.list(&ListParams::default()).await;
            let statuses = listed.map_err(|error| error.to_string())?;
            let statuses = serde_json::to_string(&statuses.items).unwrap();
            let rows = northbound.sets(NAME, Family::V4)?;
            let is_there = statuses.contains(&format!("\"{address}\""))
                && rows.iter().any(|row| row.addresses.contains(&address));
            is_there
                .then_some(())
                .ok_or_else(|| format!("{corefile}\n{statuses}\n{rows:?}"))
        })
        .await;
    }
}

//! The uninstallation of docs/operate.md, and harsher ones: the rules must continue to pass the same traffic.

use std::fs;

use hickory_proto::rr::RecordType;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams},
};
use proto::api::{DnsNameResolver, Family};
use serde_json::json;
use tests::{
    chart::{self, COLLECTOR, OVN_WRITER, kind_of},
    coredns::{CoreDns, write_zone},
    kube::{ApiServer, deploy},
    monitor::Monitor,
    northbound::{self, Northbound},
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use crate::collectors::allow;

const NAMESPACE: &str = "ovn-kubernetes";

const NAMES: [&str; 2] = ["www.example.com.", "api.example.com."];

/// The values of the chart: the collector has one replica with a short shutdown.
const CHART: [&str; 4] = [
    "--set",
    "collector.instances=1",
    "--set",
    "collector.shutdownDelaySeconds=0",
];

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    dnstap unix://{$DNSTAP_SOCKET} full
    file example.com.zone example.com
}
";

/// The number of list attempts within more than 5 s, for which the addresses of a deleted object stay: after 1.6, 3.2
/// and 5 s.
const LISTS: usize = 3;

/// Starts a program with the command of its rendered pod and its ServiceAccount.
async fn start(server: &ApiServer, workdir: &Workdir, collector: bool) -> Program {
    let listen = format!("--listen=unix://{}", workdir.join("dnstap.sock").display());
    let remote = format!("--nb={}", northbound::remote(workdir.path()));
    let (name, kind, account, place) = match collector {
        true => ("collector", "Deployment", COLLECTOR, listen),
        false => ("ovn-writer", "DaemonSet", OVN_WRITER, remote),
    };
    let objects = chart::render(NAMESPACE, &CHART);
    let pod = &chart::find(&objects, kind, account).data["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], account);
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!([name]));
    let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    // All flags but those that depend on its machine.
    let elsewhere = [
        "--admin=",
        "--log-format=",
        "--listen=",
        "--inspect=",
        "--nb=",
    ];
    let is_kept = |arg: &String| !elsewhere.iter().any(|flag| arg.starts_with(flag));
    let args = args.into_iter().filter(is_kept).chain([place]).collect();
    server.config_of(NAMESPACE, account).await;
    let kubeconfig = server.folder().join(format!("{account}.kubeconfig"));
    let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
    Program::start_with(workdir.path(), name, args, environment).await
}

/// Whether the API server refused one of its requests.
fn is_refused(program: &Program) -> bool {
    let messages = program.messages();
    let mut texts = messages.iter().map(ToString::to_string);
    texts.any(|text| text.contains("forbidden"))
}

async fn is_not_ready(program: &Program) {
    eventually("it is not ready", async || {
        match program.admin().ready().await {
            Ok(()) => Err("it still is".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
}

/// Deletes the accounts and their rights, like `helm uninstall` while the pods still end.
async fn take_rights(server: &ApiServer) {
    for object in chart::render(NAMESPACE, &CHART) {
        let types = object.types.clone().unwrap();
        if !types.api_version.starts_with("rbac.") && kind_of(&object) != "ServiceAccount" {
            continue;
        }
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", "v1"));
        let kind = GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(server.client().await, namespace, &resource),
            None => Api::all_with(server.client().await, &resource),
        };
        let gone = api
            .delete(&object.name_any(), &DeleteParams::default())
            .await;
        gone.unwrap();
    }
}

/// Deletes the CRD of a kind, and with it all objects of the kind.
async fn take_crd<K: Resource<DynamicType = ()>>(server: &ApiServer) {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client().await);
    let name = format!("{}.{}", K::plural(&()), K::group(&()));
    let gone = definitions.delete(&name, &DeleteParams::default()).await;
    gone.unwrap();
    eventually("the CRD is gone", async || {
        let found = definitions
            .get_opt(&name)
            .await
            .map_err(|error| error.to_string())?;
        found.is_none().then_some(()).ok_or_else(String::new)
    })
    .await;
}

/// The writer has listed the objects repeatedly, and the kind was unknown.
async fn lists_again(server: &ApiServer) {
    let user = format!("system:serviceaccount:{NAMESPACE}:{OVN_WRITER}");
    let lists = || server.lists(&user, "dnsnameresolvers");
    let wanted = lists() + LISTS;
    eventually("it asks again and again", async || {
        let lists = lists();
        (lists >= wanted)
            .then_some(())
            .ok_or_else(|| format!("{lists} of {wanted}"))
    })
    .await;
}

async fn pods_fill(coredns: &CoreDns, northbound: &Northbound, names: &[&str]) {
    for name in names {
        let number = 1 + NAMES
            .iter()
            .position(|it| it == name)
            .unwrap_or(NAMES.len());
        let address = format!("203.0.113.{number}");
        eventually(&format!("{address} in its set"), async || {
            coredns.ask(name, RecordType::A).await;
            let rows = northbound.sets(name, Family::V4)?;
            let is_there = rows.iter().any(|row| row.addresses.contains(&address));
            is_there.then_some(()).ok_or_else(|| format!("{rows:?}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_keep_their_content_over_an_uninstall_and_a_new_install() {
    let server = ApiServer::start().await;
    server.make_namespace(NAMESPACE).await;
    server.grant(NAMESPACE, &CHART).await;
    allow(&server, &server.namespace().await, &NAMES).await;
    let workdir = Workdir::new();
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let zone = workdir.join("example.com.zone");
    let records = "www IN A 203.0.113.1\napi IN A 203.0.113.2";
    write_zone(&zone, "example.com.", 1, records);
    let northbound = Northbound::start(workdir.path()).await;
    let mut collector = start(&server, &workdir, true).await;
    let mut writer = start(&server, &workdir, false).await;
    collector.ready().await;
    writer.ready().await;
    let mut coredns = CoreDns::start(workdir.path()).await;
    // ovn-kubernetes' own rules: unreferenced sets are not created.
    northbound.create_acls(&NAMES.map(str::to_owned), true);
    pods_fill(&coredns, &northbound, &NAMES).await;
    let history = Monitor::start(workdir.path()).await;
    assert!(!is_refused(&collector), "{:?}", collector.messages());

    // helm uninstall: the rights are deleted first, and the pods end meanwhile.
    take_rights(&server).await;
    eventually("it is refused what it asks", async || {
        is_refused(&collector).then_some(()).ok_or_else(String::new)
    })
    .await;
    collector.process().terminate().await;
    writer.process().terminate().await;
    let resolvers: Api<DnsNameResolver> = Api::namespaced(server.client().await, NAMESPACE);
    let objects = resolvers.list(&ListParams::default()).await.unwrap().items;
    let has_status = objects.iter().filter(|object| object.status.is_some());
    assert_eq!(
        has_status.count(),
        NAMES.len(),
        "objects keep their statuses"
    );
    assert_eq!(history.departures().await, [""; 0]);

    // Installed again over the remains. Then the CRD and all objects are deleted while the programs run.
    server.grant(NAMESPACE, &CHART).await;
    let mut collector = start(&server, &workdir, true).await;
    let mut writer = start(&server, &workdir, false).await;
    collector.ready().await;
    writer.ready().await;
    take_crd::<DnsNameResolver>(&server).await;
    is_not_ready(&writer).await;
    lists_again(&server).await;
    assert_eq!(history.departures().await, [""; 0]);
    collector.process().terminate().await;
    writer.process().terminate().await;
    assert_eq!(history.departures().await, [""; 0]);

    // Installed again with nothing left but rules and sets: the objects that are made have no addresses at first.
    for file in fs::read_dir(deploy("chart/files/crds")).unwrap() {
        let file = file.unwrap().path();
        if file.to_str().unwrap().contains("dnsnameresolver") {
            server.create(&file).await;
        }
    }
    let collector = start(&server, &workdir, true).await;
    let writer = start(&server, &workdir, false).await;
    eventually("the objects are made again", async || {
        let objects = resolvers.list(&ListParams::default()).await;
        let count = objects.map_err(|error| error.to_string())?.items.len();
        (count == NAMES.len())
            .then_some(())
            .ok_or_else(|| count.to_string())
    })
    .await;
    collector.ready().await;
    writer.ready().await;
    coredns.restart().await;
    pods_fill(&coredns, &northbound, &NAMES).await;
    assert_eq!(history.departures().await, [""; 0]);
}

//! The programs themselves, each as its own ServiceAccount.

use std::fs;

use hickory_proto::rr::RecordType;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use proto::api::{DnsNameResolver, Family};
use tests::{
    chart::{COLLECTOR, OVN_WRITER},
    coredns::{CoreDns, write_zone},
    kube::{ApiServer, deploy},
    northbound::{self, Northbound},
    programs::Program,
    transaction_log::departures,
    wait::eventually,
    workdir::Workdir,
};

const NAMESPACE: &str = "ovn-kubernetes";

const NAME: &str = "www.example.com.";

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    dnstap unix://{$DNSTAP_SOCKET} full
    file example.com.zone example.com
}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_survive_an_outage_of_the_api_server_and_a_deleted_crd() {
    let mut server = ApiServer::start().await;
    server.make_namespace(NAMESPACE).await;
    server.grant(NAMESPACE, &[]).await;
    let workdir = Workdir::new();
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let zone = workdir.join("example.com.zone");
    write_zone(&zone, "example.com.", 1, "www IN A 203.0.113.1");
    let northbound = Northbound::start(workdir.path()).await;
    let remote = northbound::remote(workdir.path());
    let socket = format!("unix://{}", workdir.join("dnstap.sock").display());
    let mut programs = Vec::new();
    for (name, account, flag, value) in [
        ("collector", COLLECTOR, "--listen", &socket),
        ("ovn-writer", OVN_WRITER, "--nb", &remote),
    ] {
        server.config_of(NAMESPACE, account).await;
        let kubeconfig = server.folder().join(format!("{account}.kubeconfig"));
        let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
        let args = ["--store", "kube", flag, value].map(str::to_owned).to_vec();
        programs.push(Program::start_with(workdir.path(), name, args, environment).await);
    }
    for program in &programs {
        program.ready().await;
    }

    let namespace = server.namespace().await;
    server.allow(&namespace, &[NAME]).await;
    let coredns = CoreDns::start(workdir.path()).await;
    let arrives = async |what: &str| {
        eventually(what, async || {
            coredns.ask(NAME, RecordType::A).await;
            let rows = northbound.sets(NAME, Family::V4)?;
            let is_there = rows.iter().any(|row| row.addresses.contains("203.0.113.1"));
            is_there.then_some(()).ok_or_else(|| format!("{rows:?}"))
        })
        .await;
    };
    arrives("the address in its set").await;
    let resolvers: Api<DnsNameResolver> = Api::namespaced(server.client().await, NAMESPACE);
    let objects = resolvers.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(objects.len(), 1);
    let uid = objects[0].uid();

    // While the API server is down the set stays as it is; afterwards everything continues.
    server.stop();
    for program in &programs {
        // The collector stays ready, so that its streams continue.
        eventually("it says that the store is away", async || {
            let (_, text) = program.admin().get("/readyz").await.unwrap();
            let is_ok = |line: &str| ["dns-name-resolvers: ok", "store: ok"].contains(&line);
            (!text.lines().any(is_ok)).then_some(()).ok_or(text)
        })
        .await;
    }
    assert!(
        northbound.sets(NAME, Family::V4).unwrap()[0]
            .addresses
            .contains("203.0.113.1")
    );
    for program in &mut programs {
        program.restart().await;
    }
    server.start_again().await;
    for program in &programs {
        program.ready().await;
    }
    arrives("the address is in its set again").await;
    let again = resolvers.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        again.iter().map(ResourceExt::uid).collect::<Vec<_>>(),
        [uid]
    );

    // The CRD is deleted, and with it all objects, and comes back. The new objects have no addresses at first.
    northbound.create_acls(&[NAME.to_owned()], true);
    let before = departures(workdir.path());
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client().await);
    let definition = "dnsnameresolvers.network.openshift.io";
    let params = DeleteParams::default();
    definitions.delete(definition, &params).await.unwrap();
    eventually("the ovn-writer says so", async || {
        match programs[1].admin().ready().await {
            Err(text) if text.contains("store: ") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for file in fs::read_dir(deploy("chart/files/crds")).unwrap() {
        let file = file.unwrap().path();
        if file.to_str().unwrap().contains("dnsnameresolver") {
            server.create(&file).await;
        }
    }
    eventually("the object is made again", async || {
        let listed = resolvers.list(&ListParams::default()).await;
        let items = listed.map_err(|error| error.to_string())?.items;
        (items.len() == 1)
            .then_some(())
            .ok_or_else(|| format!("{items:?}"))
    })
    .await;
    for program in &programs {
        program.ready().await;
    }
    arrives("the address is in its set still").await;
    assert_eq!(departures(workdir.path()), before);
}

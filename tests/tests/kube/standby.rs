//! Two ovn-writers of one database with a Lease: sets in use stay across a change of the leader.

use std::path::PathBuf;

use kube::{Api, api::DeleteParams};
use proto::api::{DnsNameResolver, Family};
use tests::{
    chart::{CENTRAL, OVN_WRITER},
    kube::ApiServer,
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use crate::{
    databases::{PATIENCE, Ruled, make_objects, names, object_name, write_status},
    proxy::Proxy,
};

const NAMESPACE: &str = "ovn-kubernetes";

const LEASE: [&str; 1] = ["--leader-elect"];

/// A cluster and a database with the same names, and the rights of the chart.
struct Cluster {
    objects: Api<DnsNameResolver>,
    database: Ruled,
    names: Vec<String>,
    kubeconfig: PathBuf,
    server: ApiServer,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::start().await;
        server.make_namespace(NAMESPACE).await;
        server.grant(NAMESPACE, &CENTRAL).await;
        server.config_of(NAMESPACE, OVN_WRITER).await;
        let names = names(20);
        make_objects(&server, NAMESPACE, &names).await;
        Self {
            objects: Api::namespaced(server.client().await, NAMESPACE),
            database: Ruled::start(&names).await,
            names,
            kubeconfig: server.folder().join(format!("{OVN_WRITER}.kubeconfig")),
            server,
        }
    }

    async fn writer(&self, kubeconfig: &std::path::Path) -> Program {
        self.database.writer(kubeconfig, NAMESPACE, &LEASE).await
    }

    /// Waits until the first name has exactly this address.
    async fn expect(&self, address: &str) {
        let name = &self.names[0];
        eventually(&format!("{name} = {address}"), async || {
            let rows = self.database.northbound.sets(name, Family::V4)?;
            let is_right = matches!(&*rows, [row] if row.addresses.iter().eq([address]));
            is_right.then_some(()).ok_or_else(|| format!("{rows:?}"))
        })
        .await;
    }

    async fn write(&self, address: &str) {
        write_status(&self.objects, &self.names[0], address).await;
    }

    /// Deletes objects of names in use; the responsible writer does not see it.
    async fn lose(&self, names: std::ops::Range<usize>) {
        for name in &self.names[names] {
            let params = DeleteParams::default();
            self.objects
                .delete(&object_name(name), &params)
                .await
                .unwrap();
        }
    }
}

async fn changes(program: &Program) -> f64 {
    let metric = program
        .admin()
        .metric("egress_ovn_writer_rows_changed_total", &[]);
    metric.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_ovn_writer_replaces_a_killed_leader_and_closes_nothing() {
    let cluster = Cluster::start().await;
    let mut first = cluster.writer(&cluster.kubeconfig).await;
    first.counts("egress_replica_leading", &[], 1.0).await;
    cluster
        .database
        .expect(&cluster.names, true, PATIENCE)
        .await;
    let second = cluster.writer(&cluster.kubeconfig).await;
    second.ready().await;
    // A standby knows whether store and database agree, and leaves repairs to the leader.
    second.counts("egress_ovn_writer_in_sync", &[], 1.0).await;
    cluster.write("203.0.113.2").await;
    cluster.expect("203.0.113.2").await;
    assert!(changes(&second).await.abs() < 0.5);
    cluster.lose(1..8).await;
    first.process().kill();
    cluster.lose(8..12).await;
    cluster.write("203.0.113.3").await;
    cluster.expect("203.0.113.3").await;
    second.counts("egress_replica_leading", &[], 1.0).await;
    second
        .counts("egress_ovn_writer_rows_changed_total", &[], 1.0)
        .await;
    // The first one restarts as standby.
    first.restart().await;
    first.ready().await;
    cluster.write("203.0.113.4").await;
    cluster.expect("203.0.113.4").await;
    let closings = cluster.database.closings();
    let moved = ["10.1.0.0", "203.0.113.2", "203.0.113.3"];
    let moved = moved.map(|address| format!("{} {address}", cluster.names[0]));
    assert_eq!(closings, moved);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_lease_hands_the_sets_over_and_closes_nothing() {
    let cluster = Cluster::start().await;
    let (workdir, proxy) = (Workdir::new(), Proxy::start(&cluster.server).await);
    let first = cluster.writer(&proxy.kubeconfig(&workdir)).await;
    first.counts("egress_replica_leading", &[], 1.0).await;
    cluster
        .database
        .expect(&cluster.names, true, PATIENCE)
        .await;
    let second = cluster.writer(&cluster.kubeconfig).await;
    second.ready().await;
    cluster.lose(1..8).await;
    // The leader cannot reach the API server, and another one leads.
    proxy.hang(true);
    second.counts("egress_replica_leading", &[], 1.0).await;
    cluster.write("203.0.113.2").await;
    cluster.expect("203.0.113.2").await;
    // It has an old view of the store, and must not undo newer writes.
    let uuid = cluster
        .database
        .northbound
        .sets(&cluster.names[0], Family::V4)
        .unwrap()
        .remove(0)
        .uuid;
    let add = ["add", "Address_Set", &uuid, "addresses", "10.6.6.6"];
    cluster.database.northbound.nbctl(&add).unwrap();
    cluster.expect("203.0.113.2").await;
    let before = changes(&first).await;
    proxy.hang(false);
    first.ready().await;
    cluster.write("203.0.113.3").await;
    cluster.expect("203.0.113.3").await;
    assert!(
        (changes(&first).await - before).abs() < 0.5,
        "it does not lead"
    );
    let closings = cluster.database.closings();
    let moved = ["10.1.0.0", "10.6.6.6", "203.0.113.2"];
    let moved = moved.map(|address| format!("{} {address}", cluster.names[0]));
    assert_eq!(closings, moved);
}

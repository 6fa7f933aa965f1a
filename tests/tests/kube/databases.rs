//! An ovn-writer on a cluster, and a northbound database with rules for its names.

use std::{collections::BTreeSet, path::Path, time::Duration};

use futures_util::{StreamExt, stream};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use proto::api::{DnsNameResolver, Family};
use serde_json::json;
use tests::{
    allowed::closings, kube::ApiServer, northbound::Northbound, programs::Program, transaction_log,
    wait::eventually_within, workdir::Workdir,
};

/// The number of parallel requests of a test.
const AT_ONCE: usize = 16;

/// Enough for thousands of objects.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The names of thousands of objects, in the order in which the API server lists the objects.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("n{n:05}.example.com."))
        .collect()
}

pub(crate) fn address(n: usize) -> String {
    format!("10.1.{}.{}", n >> 8, n & 255)
}

pub(crate) fn object_name(name: &str) -> String {
    name.trim_end_matches('.').to_owned()
}

/// Creates the object of each name, with an address in its status.
pub(crate) async fn make_objects(server: &ApiServer, namespace: &str, names: &[String]) {
    let objects: Api<DnsNameResolver> = Api::namespaced(server.client().await, namespace);
    stream::iter(names.iter().enumerate())
        .for_each_concurrent(AT_ONCE, async |(n, name)| {
            let object = json!({
                "apiVersion": "network.openshift.io/v1alpha1",
                "kind": "DNSNameResolver",
                "metadata": { "name": object_name(name) },
                "spec": { "name": name },
            });
            let object = serde_json::from_value(object).unwrap();
            objects
                .create(&PostParams::default(), &object)
                .await
                .unwrap();
            write_status(&objects, name, &address(n)).await;
        })
        .await;
}

pub(crate) async fn write_status(objects: &Api<DnsNameResolver>, name: &str, ip: &str) {
    let address = json!({ "ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z" });
    let entry = json!({ "dnsName": name, "resolvedAddresses": [address] });
    let status = Patch::Merge(json!({ "status": { "resolvedNames": [entry] } }));
    let params = PatchParams::default();
    let written = objects
        .patch_status(&object_name(name), &params, &status)
        .await;
    written.unwrap();
}

/// A database with rules. Fields are in the order in which they are dropped.
pub(crate) struct Ruled {
    pub(crate) northbound: Northbound,
    pub(crate) workdir: Workdir,
}

impl Ruled {
    /// Starts a database with a rule for each name.
    pub(crate) async fn start(names: &[String]) -> Self {
        let workdir = Workdir::new();
        let northbound = Northbound::start(workdir.path()).await;
        northbound.create_acls(names, false);
        Self {
            northbound,
            workdir,
        }
    }

    /// The addresses that left a set while a rule referred to it, as `NAME ADDRESS`.
    pub(crate) fn closings(&self) -> Vec<String> {
        closings(&transaction_log::read(self.workdir.path()))
    }

    pub(crate) async fn writer(
        &self,
        kubeconfig: &Path,
        namespace: &str,
        more: &[&str],
    ) -> Program {
        let remote = self.northbound.remote();
        let args = [
            "--store",
            "kube",
            "--objects-namespace",
            namespace,
            "--nb",
            &remote,
        ];
        let args = args
            .iter()
            .chain(more)
            .map(|arg| (*arg).to_owned())
            .collect();
        let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
        Program::start_with(self.workdir.path(), "ovn-writer", args, environment).await
    }

    /// Waits until each of these names has addresses in its IPv4 set, or none of them has any.
    pub(crate) async fn expect(&self, names: &[String], has_addresses: bool, patience: Duration) {
        let what = format!("addresses of {} names: {has_addresses}", names.len());
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        eventually_within(patience, &what, async || {
            let rows = self.northbound.rows()?;
            let full: BTreeSet<&str> = rows
                .iter()
                .filter(|row| !row.addresses.is_empty())
                .filter_map(|row| row.dns_name().filter(|name| row.is_of(name, Family::V4)))
                .filter(|name| names.contains(name))
                .collect();
            let wanted = if has_addresses { names.len() } else { 0 };
            (full.len() == wanted)
                .then_some(())
                .ok_or_else(|| full.len().to_string())
        })
        .await;
    }
}

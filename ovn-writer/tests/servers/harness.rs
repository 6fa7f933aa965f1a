//! A writer whose store is the test, and a real northbound database.

use std::collections::BTreeSet;

use futures_util::stream;
use ovn_writer::{
    Writer,
    address_set::NORTHBOUND,
    ovsdb::{ClientOptions, Remotes},
};
use proto::api::{DnsNameResolver, Family};
use runtime::{
    admin::Health,
    store::{Event, ObjectKey},
};
use tests::{
    northbound::{Northbound, Row},
    wait::eventually,
    workdir::Workdir,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::server::{control, port};

/// A writer at work.
pub(crate) struct RunningWriter {
    store: mpsc::Sender<Event<DnsNameResolver>>,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl RunningWriter {
    /// Starts it; its store says nothing yet.
    pub(crate) fn start(remotes: &str) -> Self {
        let remotes: Remotes = remotes.parse().unwrap();
        let writer = Writer::new(&remotes, ClientOptions::new(NORTHBOUND), &Health::new());
        let (store, mut events) = mpsc::channel(16);
        let token = CancellationToken::new();
        let objects = stream::poll_fn(move |context| events.poll_recv(context));
        let task = tokio::spawn(writer.run(objects, token.clone()));
        Self { store, token, task }
    }

    /// Its store says this.
    pub(crate) async fn store(&self, event: Event<DnsNameResolver>) {
        self.store.send(event).await.unwrap();
    }

    /// An object is made or changed.
    pub(crate) async fn applied(&self, name: &str, addresses: &[&str]) {
        self.store(Event::Applied(object(name, addresses))).await;
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// A northbound database in a folder of its own.
pub(crate) struct Database {
    pub(crate) northbound: Northbound,
    pub(crate) workdir: Workdir,
}

impl Database {
    pub(crate) async fn start() -> Self {
        let workdir = Workdir::new();
        let northbound = Northbound::start(workdir.path()).await;
        Self {
            northbound,
            workdir,
        }
    }

    /// Waits until there is exactly one set of the name and family, with these addresses.
    pub(crate) async fn expect(&self, name: &str, family: Family, addresses: &[&str]) {
        let expected: BTreeSet<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        self.expect_rows(
            &format!("{name} {family} = {addresses:?}"),
            name,
            family,
            |rows| matches!(rows, [row] if row.addresses == expected),
        )
        .await;
    }

    /// Waits until the rows of the name and family are as they should be.
    pub(crate) async fn expect_rows(
        &self,
        what: &str,
        name: &str,
        family: Family,
        good: impl Fn(&[Row]) -> bool,
    ) {
        eventually(what, async || {
            let rows = self.northbound.sets(name, family)?;
            if good(&rows) {
                Ok(())
            } else {
                Err(format!("{rows:?}"))
            }
        })
        .await;
    }

    /// The one row of the name and family.
    pub(crate) fn row(&self, name: &str, family: Family) -> Row {
        let rows = self.northbound.sets(name, family).unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().unwrap()
    }

    /// Somebody else makes a row.
    pub(crate) fn create(&self, set_name: &str, name: &str, family: Family, addresses: &str) {
        let columns = [
            format!("name={set_name}"),
            "external_ids:k8s.ovn.org/owner-type=EgressFirewallDNS".to_owned(),
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller".to_owned(),
            format!("external_ids:k8s.ovn.org/name=\"{name}\""),
            format!("external_ids:ip-family={family}"),
            format!("addresses={addresses}"),
        ];
        let columns = columns.iter().map(String::as_str);
        let args: Vec<_> = ["create", "Address_Set"]
            .into_iter()
            .chain(columns)
            .collect();
        self.northbound.nbctl(&args).unwrap();
    }

    /// Tells the server something by its control socket.
    pub(crate) fn control(&self, args: &[&str]) -> String {
        control(&self.workdir.join("nb.ctl"), args).unwrap()
    }

    /// Lets the server listen on a TCP port of its choice on this address, and returns the remote.
    pub(crate) async fn listen(&mut self, address: &str) -> String {
        self.control(&["ovsdb-server/add-remote", &format!("ptcp:0:{address}")]);
        format!("tcp:{address}:{}", port(self.northbound.process()).await)
    }
}

/// A `DNSNameResolver` of this name, whose object is named alike.
pub(crate) fn object(name: &str, addresses: &[&str]) -> DnsNameResolver {
    let address = |ip: &&str| serde_json::json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"});
    let addresses: Vec<_> = addresses.iter().map(address).collect();
    serde_json::from_value(serde_json::json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {"namespace": "ovn-kubernetes", "name": name.trim_matches('.')},
        "spec": {"name": name},
        "status": {"resolvedNames": [{"dnsName": name, "resolvedAddresses": addresses}]},
    }))
    .unwrap()
}

/// It is deleted.
pub(crate) fn deleted(name: &str) -> Event<DnsNameResolver> {
    Event::Deleted(ObjectKey::of(&object(name, &[])))
}

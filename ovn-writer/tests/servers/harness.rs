//! A writer whose store is controlled by the test, and a real northbound database.

use std::{collections::BTreeSet, path::Path, pin::pin, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use ovn_writer::{
    Writer,
    address_set::NORTHBOUND,
    desired::Filter,
    plan::{Delays, Policy},
};
use ovsdb_replica::{ClientOptions, Remotes};
use proto::{
    api::{DnsNameResolver, Family},
    facts::Condition,
};
use runtime::{
    admin::Health,
    store::{Event, Scope, Store as _, dir::DirStore},
};
use tests::{
    northbound::{Northbound, Row},
    store::OBJECTS_NAMESPACE,
    wait::eventually,
    workdir::Workdir,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How long an unused set without an object stays with [`quick`].
pub(crate) const DELETE: Duration = Duration::from_millis(500);

/// The mark of a writer's rows.
pub(crate) const STORE: &str = "kube/ovn-kubernetes";

pub(crate) struct RunningWriter {
    store: mpsc::Sender<Event<DnsNameResolver>>,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
    health: Health,
}

impl RunningWriter {
    /// Starts it with a silent store. The delay of a minute is half a second here.
    pub(crate) fn start(remotes: &str) -> Self {
        Self::start_with(remotes, quick(policy()), |writer| writer)
    }

    /// Starts it with another policy, or as a dry run or standby.
    pub(crate) fn start_with(
        remotes: &str,
        policy: Policy,
        change: impl FnOnce(Writer) -> Writer,
    ) -> Self {
        let (store, mut events) = mpsc::channel(16);
        let objects = stream::poll_fn(move |context| events.poll_recv(context));
        let (writer, health) = Self::writer(remotes, policy);
        Self::run((change(writer), health), store, objects)
    }

    /// Starts it on the objects of a folder.
    pub(crate) fn follow(remotes: &str, policy: Policy, folder: &Path) -> Self {
        let (store, mut events) = mpsc::channel(16);
        let objects = stream::poll_fn(move |context| events.poll_recv(context));
        let writer = Self::writer(remotes, policy);
        let running = Self::run(writer, store.clone(), objects);
        let watched = DirStore::open(folder)
            .unwrap()
            .watch(Scope::Namespace(OBJECTS_NAMESPACE.to_owned()));
        // The task ends with the writer, which takes the events.
        tokio::spawn(async move {
            let mut watched = pin!(watched);
            while let Some(event) = watched.next().await
                && store.send(event).await.is_ok()
            {}
        });
        running
    }

    fn writer(remotes: &str, policy: Policy) -> (Writer, Health) {
        let remotes: Remotes = remotes.parse().unwrap();
        let options = ClientOptions::new(NORTHBOUND);
        let health = Health::new();
        (Writer::new(&remotes, options, policy, &health), health)
    }

    fn run(
        (writer, health): (Writer, Health),
        store: mpsc::Sender<Event<DnsNameResolver>>,
        objects: impl Stream<Item = Event<DnsNameResolver>> + Send + 'static,
    ) -> Self {
        let token = CancellationToken::new();
        let task = tokio::spawn(writer.run(objects, token.clone()));
        Self {
            store,
            token,
            task,
            health,
        }
    }

    /// Waits until it is ready without a warning.
    pub(crate) async fn ready(&self) {
        eventually("all is well", async || {
            let conditions = self.health.conditions();
            let is_well = |it: &Condition| it.holds && it.reason.is_none();
            let all = conditions.iter().all(is_well);
            all.then_some(()).ok_or_else(|| format!("{conditions:?}"))
        })
        .await;
    }

    /// Sends it an event of its store.
    pub(crate) async fn store(&self, event: Event<DnsNameResolver>) {
        self.store.send(event).await.unwrap();
    }

    /// Sends it a new or changed object.
    pub(crate) async fn applied(&self, name: &str, addresses: &[&str]) {
        self.store(Event::Applied(object(name, addresses))).await;
    }

    /// Aborts it at any point of its work.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// The default policy.
pub(crate) fn policy() -> Policy {
    Policy::new(STORE, Filter::default())
}

/// With a shorter delay before a deletion.
pub(crate) fn quick(mut policy: Policy) -> Policy {
    policy.delays = Delays {
        delete: DELETE,
        ..Delays::default()
    };
    policy
}

/// For a database that ovn-kubernetes manages.
pub(crate) fn managed(mut policy: Policy) -> Policy {
    policy.is_managed = true;
    policy
}

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

    /// Waits until the rows of the name and family pass the check.
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

    pub(crate) fn row(&self, name: &str, family: Family) -> Row {
        let rows = self.northbound.sets(name, family).unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().unwrap()
    }
}

/// A `DNSNameResolver` of this name, with an object name derived from it.
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

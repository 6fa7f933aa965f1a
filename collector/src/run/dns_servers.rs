//! The DNS servers: those that look-ups query, those that get flush probes, and those that stream here.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use runtime::{OpenStore, UsageError, changes::send_if_changed, shutdown::Tasks};
use tokio::{sync::watch, time::sleep};

use super::{Program, follow};
use crate::{
    cluster::endpoints::{Discovery, Endpoints},
    flush::{
        self, BlockView, ProbeReports,
        coverage::{RecentCoverage, StreamCoverage},
        task::Inputs,
    },
    listen::ConnectionTable,
    lookup::{ResolvConf, ResolverSpec, Servers},
};

/// The DNS servers of the cluster; `None` until they are listed.
type Listed = watch::Receiver<Option<Endpoints>>;

pub(super) type Blocks = watch::Receiver<Arc<Vec<BlockView>>>;

/// The interval of counting the DNS servers that stream.
const COUNT: Duration = Duration::from_secs(1);

impl Program {
    /// The DNS servers of the cluster, if look-ups query them or the ACL for peers needs them.
    pub(super) fn endpoints(&self, tasks: &mut Tasks) -> Option<Listed> {
        let OpenStore::Kube(store) = &self.store else {
            return None;
        };
        let are_queried = self.args.resolver() == ResolverSpec::Kube;
        let are_flushed = !self.args.flush.flush_probe.is_zero();
        if !are_queried && !are_flushed && !self.args.listen.is_on_the_network() {
            return None;
        }
        let discovery = Discovery::new(store.cluster(), &self.args.lookups.resolver_service);
        let found = discovery.found();
        tasks.spawn("discovery", discovery.run(tasks.token()));
        Some(found)
    }

    /// The servers that look-ups query; `None` without look-ups.
    pub(super) fn lookup_servers(
        &self,
        endpoints: Option<Listed>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Option<watch::Receiver<Servers>>> {
        let (sender, servers) = watch::channel(Servers::default());
        match (self.args.resolver(), endpoints) {
            (ResolverSpec::None, _) => return Ok(None),
            (ResolverSpec::Kube, Some(found)) => {
                let pass_on = move |endpoints: Option<Endpoints>| {
                    if let Some(endpoints) = endpoints {
                        let ready = endpoints.iter().filter(|(_, conditions)| conditions.ready);
                        sender.send_replace(ready.map(|(address, _)| *address).collect());
                    }
                };
                tasks.spawn("resolver servers", follow(found, tasks.token(), pass_on));
            }
            (ResolverSpec::Kube, None) => {
                return Err(UsageError("--resolver kube needs --store kube".to_owned()).into());
            }
            (ResolverSpec::Servers(fixed), _) => {
                sender.send_replace(fixed.into());
            }
            (ResolverSpec::ResolvConf, _) => {
                let file = ResolvConf::of_host();
                tasks.spawn("resolver servers", file.run(sender, tasks.token()));
            }
        }
        Ok(Some(servers))
    }

    /// Starts the flush task for these servers. Returns the readers' end, and the states of the server
    /// blocks.
    pub(super) fn flush(
        &self,
        servers: watch::Receiver<BTreeSet<SocketAddr>>,
        tasks: &mut Tasks,
    ) -> (ProbeReports, Blocks) {
        let (sender, blocks) = watch::channel(Arc::default());
        let Some(templates) = self.args.flush.templates() else {
            return (ProbeReports::default(), blocks);
        };
        let (reports, seen) = ProbeReports::new();
        let inputs = Inputs {
            interval: self.args.flush.flush_probe,
            templates,
            servers,
            seen,
            own: self.own.clone(),
        };
        let task = flush::run(inputs, sender, tasks.token());
        tasks.spawn("flush probes", task);
        (reports, blocks)
    }

    /// Which DNS servers stream to this collector.
    pub(super) fn coverage(
        &self,
        connections: ConnectionTable,
        blocks: Blocks,
        servers: watch::Receiver<BTreeSet<SocketAddr>>,
        tasks: &mut Tasks,
    ) -> watch::Receiver<StreamCoverage> {
        let (sender, coverage) = watch::channel(StreamCoverage::default());
        if self.args.listen.listen.is_empty() {
            return coverage;
        }
        // A server that a flag names may not stream.
        let all_stream = matches!(self.store, OpenStore::Kube(_));
        let token = tasks.token();
        tasks.spawn("stream coverage", async move {
            let mut recent = RecentCoverage::default();
            loop {
                let peers = connections.known_addresses();
                let now =
                    StreamCoverage::new(&peers, &servers.borrow(), &blocks.borrow(), all_stream);
                send_if_changed(&sender, recent.add(now));
                tokio::select! {
                    () = token.cancelled() => return Ok(()),
                    () = sleep(COUNT) => {}
                }
            }
        });
        coverage
    }
}

/// The DNS servers that pods may use: those of the cluster, or with a folder those that
/// look-ups query.
pub(super) fn flush_servers(
    endpoints: &Option<Listed>,
    lookup_servers: &Option<watch::Receiver<Servers>>,
    tasks: &mut Tasks,
) -> watch::Receiver<BTreeSet<SocketAddr>> {
    let (sender, servers) = watch::channel(BTreeSet::new());
    match (endpoints, lookup_servers) {
        (Some(endpoints), _) => {
            let pass_on = move |endpoints: Option<Endpoints>| {
                if let Some(endpoints) = endpoints {
                    // The Service routes no query to the others.
                    let serving = endpoints
                        .iter()
                        .filter(|(_, conditions)| conditions.serving);
                    send(&sender, serving.map(|(address, _)| *address));
                }
            };
            let following = follow(endpoints.clone(), tasks.token(), pass_on);
            tasks.spawn("flush servers", following);
        }
        (None, Some(servers)) => {
            let pass_on = move |servers: Servers| {
                send(&sender, servers.iter().copied());
            };
            let following = follow(servers.clone(), tasks.token(), pass_on);
            tasks.spawn("flush servers", following);
        }
        (None, None) => {}
    }
    servers
}

/// Canonical addresses, as streams have them.
fn send(sender: &watch::Sender<BTreeSet<SocketAddr>>, servers: impl Iterator<Item = SocketAddr>) {
    let canonical = |server: SocketAddr| SocketAddr::new(server.ip().to_canonical(), server.port());
    sender.send_replace(servers.map(canonical).collect());
}

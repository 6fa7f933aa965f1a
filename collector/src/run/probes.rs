//! The DNS servers that get flush probes.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use runtime::{endpoints::Endpoints, shutdown::Tasks};
use tokio::sync::watch;

use super::{Found, Program, follow};
use crate::{
    flush::{self, BlockView, ProbeReports, task::Inputs},
    lookup,
    rules::{BySource, Wanted},
};

pub(super) type Blocks = watch::Receiver<Arc<Vec<BlockView>>>;

/// The DNS servers that pods may use: those of the cluster, or with a folder those that
/// look-ups query.
pub(super) fn probed_servers(
    endpoints: &Option<Found>,
    asked: &Option<watch::Receiver<lookup::Servers>>,
    tasks: &mut Tasks,
) -> watch::Receiver<BTreeSet<SocketAddr>> {
    let (sender, servers) = watch::channel(BTreeSet::new());
    match (endpoints, asked) {
        (Some(endpoints), _) => {
            let pass_on = move |endpoints: Option<Endpoints>| {
                if let Some(endpoints) = endpoints {
                    // The Service routes no query to the others.
                    let serving = endpoints.iter().filter(|(_, it)| it.serving);
                    send(&sender, serving.map(|(address, _)| *address));
                }
            };
            let following = follow(endpoints.clone(), tasks.token(), pass_on);
            tasks.spawn("probed servers", following);
        }
        (None, Some(asked)) => {
            let pass_on = move |servers: lookup::Servers| {
                send(&sender, servers.iter().map(|server| server.address));
            };
            let following = follow(asked.clone(), tasks.token(), pass_on);
            tasks.spawn("probed servers", following);
        }
        (None, None) => {}
    }
    servers
}

/// Starts the flush task for these servers. Returns the readers' end, and the states of the server
/// blocks.
pub(super) fn probes(
    program: &Program,
    servers: watch::Receiver<BTreeSet<SocketAddr>>,
    wanted: &watch::Receiver<BySource<Wanted>>,
    tasks: &mut Tasks,
) -> (ProbeReports, Blocks) {
    let (sender, blocks) = watch::channel(Arc::default());
    let Some(templates) = program.args.flush.templates() else {
        return (ProbeReports::default(), blocks);
    };
    let (reports, seen) = ProbeReports::new();
    let inputs = Inputs {
        interval: program.args.flush.flush_probe,
        templates,
        servers,
        wanted: wanted.clone(),
        seen,
        own: program.own.clone(),
    };
    let task = flush::run(inputs, sender, tasks.token());
    tasks.spawn("flush probes", task);
    (reports, blocks)
}

/// Canonical addresses, as streams have them.
fn send(sender: &watch::Sender<BTreeSet<SocketAddr>>, servers: impl Iterator<Item = SocketAddr>) {
    let canonical = |server: SocketAddr| SocketAddr::new(server.ip().to_canonical(), server.port());
    sender.send_replace(servers.map(canonical).collect());
}

//! Flush probes: whom they go to, and who is told of them.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use runtime::{endpoints::Endpoints, replicas::Replicas, shutdown::Tasks, store::OpenStore};
use tokio::sync::watch;

use super::{Found, Program, follow};
use crate::{
    flush::{
        self, BlockView, Streams,
        plan::{Config, Peers},
        share,
        task::{Announcement, Inputs, Outputs},
    },
    policy::Wanted,
    resolve,
};

type Blocks = watch::Receiver<Arc<Vec<BlockView>>>;

impl Program {
    /// Probes the DNS servers that pods may ask: those of the cluster, or with a folder those that are asked for look-ups. Gives
    /// what the readers tell of their streams, and how things stand.
    pub(super) fn probes(
        &self,
        endpoints: &Option<Found>,
        asked: &Option<watch::Receiver<resolve::Servers>>,
        wanted: &watch::Receiver<Wanted>,
        tasks: &mut Tasks,
    ) -> (Streams, Blocks) {
        let (blocks, shown) = watch::channel(Arc::default());
        let Some(templates) = self.args.flush.templates() else {
            return (Streams::default(), shown);
        };
        let (sender, servers) = watch::channel(BTreeSet::new());
        match (endpoints, asked) {
            (Some(endpoints), _) => {
                let pass_on = move |endpoints: Option<Endpoints>| {
                    if let Some(endpoints) = endpoints {
                        // Nobody is sent to the others.
                        let serving = endpoints.iter().filter(|(_, it)| it.serving);
                        send(&sender, serving.map(|(address, _)| *address));
                    }
                };
                let following = follow(endpoints.clone(), tasks.token(), pass_on);
                tasks.spawn("probed servers", following);
            }
            (None, Some(asked)) => {
                let pass_on = move |servers: resolve::Servers| {
                    send(&sender, servers.iter().map(|server| server.address));
                };
                let following = follow(asked.clone(), tasks.token(), pass_on);
                tasks.spawn("probed servers", following);
            }
            (None, None) => {}
        }
        let (streams, told) = Streams::new(Arc::clone(&templates));
        let (announcement, announced) = watch::channel(Default::default());
        let (replica, peers) = self.other_replicas(announced, tasks);
        let config = Config {
            interval: self.args.flush.flush_probe,
            budget: self.args.flush.flush_budget,
            replica,
            names: templates.iter().map(|it| it.name().clone()).collect(),
        };
        let inputs = Inputs {
            servers,
            wanted: wanted.clone(),
            peers,
            told,
        };
        let outputs = Outputs {
            blocks,
            announcement,
        };
        let task = flush::run(
            config,
            templates,
            inputs,
            outputs,
            self.own.clone(),
            tasks.token(),
        );
        tasks.spawn("flush probes", task);
        (streams, shown)
    }

    /// By what the other replicas know this one, and what they tell. With a folder there are two at most, each of which probes: that
    /// costs little, and harms nobody.
    fn other_replicas(
        &self,
        announced: watch::Receiver<Announcement>,
        tasks: &mut Tasks,
    ) -> (String, watch::Receiver<Peers>) {
        let (sender, peers) = watch::channel(Peers::default());
        let OpenStore::Kube(store) = &self.store else {
            return (String::new(), peers);
        };
        let namespace = &self.args.common.objects_namespace;
        let replicas = Replicas::new(store.cluster(), namespace, "collector");
        let id = replicas.id().to_owned();
        let own = self.own.clone();
        let pass_on = move |others| {
            let peers = share::peers(&others);
            own.others_ask_from(share::addresses(&peers));
            sender.send_replace(peers);
        };
        let following = follow(replicas.others(), tasks.token(), pass_on);
        tasks.spawn("other replicas", following);
        let (text, told) = watch::channel(String::new());
        let telling = share::tell(announced, self.own.addresses(), text, tasks.token());
        tasks.spawn("what other replicas are told", telling);
        tasks.spawn("replicas", replicas.run(told, tasks.token()));
        (id, peers)
    }
}

/// By the addresses that streams show, in which IPv4 is never mapped.
fn send(sender: &watch::Sender<BTreeSet<SocketAddr>>, servers: impl Iterator<Item = SocketAddr>) {
    let canonical = |server: SocketAddr| SocketAddr::new(server.ip().to_canonical(), server.port());
    sender.send_replace(servers.map(canonical).collect());
}

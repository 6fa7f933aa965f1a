//! The writer on a thread of its own, as in the program, with a store that the bench controls.

use std::{
    thread::{self, JoinHandle},
    time::Instant,
};

use futures_util::stream;
use ovn_writer::{Writer, address_set::NORTHBOUND, desired::Filter, plan::Policy};
use ovsdb_replica::{ClientOptions, Remotes};
use proto::api::DnsNameResolver;
use runtime::{admin::Health, run_alone, store::Event};
use tests::{northbound::Northbound, workdir::Workdir};
use tokio::{runtime::Builder, sync::mpsc};
use tokio_util::sync::CancellationToken;

use crate::signals::Signals;

pub(crate) struct Server {
    pub(crate) northbound: Northbound,
    pub(crate) workdir: Workdir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let workdir = Workdir::transient();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let northbound = runtime.block_on(Northbound::start(workdir.path()));
        Self {
            northbound,
            workdir,
        }
    }

    pub(crate) fn remote(&self) -> String {
        self.northbound.remote()
    }
}

/// The store in the marks of the writer's rows.
pub(crate) const STORE: &str = "kube/ovn-kubernetes";

pub(crate) struct RunningWriter {
    store: mpsc::Sender<Event<DnsNameResolver>>,
    token: CancellationToken,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl RunningWriter {
    /// Starts the writer with this store, and waits until the database matches it. Returns when it was started and when
    /// it was done.
    pub(crate) fn start(
        remote: &str,
        objects: Vec<DnsNameResolver>,
        signals: &Signals,
    ) -> (Self, Instant, Instant) {
        let remotes: Remotes = remote.parse().unwrap();
        let (store, mut events) = mpsc::channel(1024);
        let token = CancellationToken::new();
        signals.clear();
        store.blocking_send(Event::Synced(objects)).unwrap();
        let start = Instant::now();
        let policy = Policy::new(STORE, Filter::default());
        let options = ClientOptions::new(NORTHBOUND);
        let writer = Writer::new(&remotes, options, policy, &Health::new());
        let objects = stream::poll_fn(move |context| events.poll_recv(context));
        let work = writer.run(objects, token.clone());
        // The program does the same.
        let thread = thread::spawn(|| run_alone(work).unwrap());
        let end = signals.in_sync();
        let writer = Self {
            store,
            token,
            thread,
        };
        (writer, start, end)
    }

    /// Sends the event of a changed object.
    pub(crate) fn applied(&self, object: DnsNameResolver) {
        self.store.blocking_send(Event::Applied(object)).unwrap();
    }

    pub(crate) fn stop(self) {
        self.token.cancel();
        self.thread.join().unwrap().unwrap();
    }
}

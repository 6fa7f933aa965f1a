//! The writer on a thread of its own, as in the program, with a store that the bench controls.

use std::{
    net::IpAddr,
    sync::mpsc::channel,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures_util::stream;
use ovn_writer::{Writer, address_set::NORTHBOUND, desired::Filter, plan::Policy};
use ovsdb_replica::{ClientOptions, Remotes};
use proto::api::DnsNameResolver;
use runtime::{admin::Health, run_alone, store::Event};
use tests::{
    cpu_time, northbound::Northbound, process, programs::Program, store::Store, workdir::Workdir,
};
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

impl Server {
    /// The memory in bytes of the program, for a name with these addresses. It writes nothing.
    pub(crate) fn memory_of_program(&self, dns_name: &str, addresses: &[IpAddr]) -> u64 {
        let store = Store::new(self.workdir.join("store"));
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        store.write_status(dns_name, &addresses);
        let args = [
            format!("--store={}", store.address()),
            format!("--nb={}", self.remote()),
            "--dry-run".to_owned(),
        ];
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut program =
                Program::start(self.workdir.path(), "ovn-writer", args.to_vec()).await;
            program.ready().await;
            let [memory, _] = process::memory(program.process().pid());
            memory
        })
    }
}

/// The store in the marks of the writer's rows.
pub(crate) const STORE: &str = "kube/ovn-kubernetes";

pub(crate) struct RunningWriter {
    store: mpsc::Sender<Event<DnsNameResolver>>,
    token: CancellationToken,
    thread: JoinHandle<anyhow::Result<()>>,
    thread_id: String,
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
        let (sender, id) = channel();
        let thread = thread::spawn(move || {
            sender.send(cpu_time::this_thread()).unwrap();
            run_alone(work).unwrap()
        });
        let thread_id = id.recv().unwrap();
        let end = signals.in_sync();
        let writer = Self {
            store,
            token,
            thread,
            thread_id,
        };
        (writer, start, end)
    }

    /// Sends the event of a changed object.
    pub(crate) fn applied(&self, object: DnsNameResolver) {
        self.store.blocking_send(Event::Applied(object)).unwrap();
    }

    /// The CPU time of the writer's thread so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        cpu_time::of_thread(&self.thread_id)
    }

    pub(crate) fn stop(self) {
        self.token.cancel();
        self.thread.join().unwrap().unwrap();
    }
}

//! Two collectors on one store: one looks names up and writes.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hickory_proto::rr::RecordType;
use rustix::process::Signal;
use tests::{
    coredns::{CoreDns, write_zone},
    dns::ask,
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::sleep,
};

mod soak {
    use super::*;

    /// What is behind the address of a `dnstap` line.
    struct Line {
        address: SocketAddr,
        /// The port of the collector that gets new connections.
        collector: Arc<Mutex<SocketAddr>>,
    }

    impl Line {
        /// A Service with this collector: a connection stays where it was made.
        async fn to(collector: SocketAddr) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let collector = Arc::new(Mutex::new(collector));
            let current = Arc::clone(&collector);
            tokio::spawn(async move {
                while let Ok((mut client, _)) = listener.accept().await {
                    let to = *current.lock().unwrap();
                    tokio::spawn(async move {
                        let mut collector = TcpStream::connect(to).await?;
                        copy_bidirectional(&mut client, &mut collector).await
                    });
                }
            });
            Self { address, collector }
        }
    }

    /// A collector with a log of its own, and where it listens.
    async fn start(store: &Store) -> (Workdir, Program, SocketAddr) {
        let workdir = Workdir::new();
        let args = [
            "--store",
            &store.address(),
            "--listen=tcp://127.0.0.1:0",
            "--resolver=none",
            "--shutdown-delay=2s",
        ];
        let args = args.map(str::to_owned).to_vec();
        let program = Program::start(workdir.path(), "collector", args).await;
        program.ready().await;
        let messages = program.messages();
        let mut messages = messages.iter();
        let listening = messages.find(|it| it["message"] == "listening for dnstap");
        let address = listening.unwrap()["listen"].as_str().unwrap();
        let address = address.strip_prefix("tcp://").unwrap().parse();
        (workdir, program, address.unwrap())
    }

    /// There are no look-ups: the collectors know only the streams, and must not miss an answer.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rollout_with_two_lines_loses_no_event() {
        const WILDCARD: &str = "*.load.example.com.";
        let workdir = Workdir::new();
        let store = Store::new(workdir.join("store"));
        store.allow("team", &[WILDCARD]);
        let mut collectors = [start(&store).await, start(&store).await];
        let lines = [
            Line::to(collectors[0].2).await,
            Line::to(collectors[1].2).await,
        ];
        let dnstap = |line: &Line| format!("    dnstap tcp://{} full\n", line.address);
        let corefile = format!(
            ".:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n{}{}    file example.com.zone example.com\n}}\n",
            dnstap(&lines[0]),
            dnstap(&lines[1]),
        );
        fs::write(workdir.join("Corefile"), corefile).unwrap();
        let zone = workdir.join("example.com.zone");
        write_zone(&zone, "example.com.", 1, "*.load IN A 192.0.2.30");
        let coredns = CoreDns::start(workdir.path()).await;
        let streams = async |collector: &Program| {
            collector
                .counts("egress_collector_connections", &[], 1.0)
                .await;
        };
        for (_, collector, _) in &collectors {
            streams(collector).await;
        }

        let (server, asked) = (coredns.address(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let load = tokio::spawn(async move {
            loop {
                let name = format!("n{}.load.example.com.", count.load(Ordering::Relaxed));
                // A lost datagram is sent again, since CoreDNS did not see it.
                while ask(server, &name, RecordType::A).await.is_err() {}
                count.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(100)).await;
            }
        });
        for (line, old) in lines.iter().zip(&mut collectors) {
            let answers = async |more: usize| {
                let before = asked.load(Ordering::Relaxed);
                eventually("more answers", async || {
                    let now = asked.load(Ordering::Relaxed) - before;
                    (now > more).then_some(()).ok_or(now.to_string())
                })
                .await;
            };
            // A stream counts for the lead once it is ten seconds old.
            answers(110).await;
            let (new_workdir, new, address) = start(&store).await;
            // The old one gets new streams until the Service knows the new one, and reads on meanwhile.
            old.1.process().signal(Signal::TERM);
            answers(10).await;
            *line.collector.lock().unwrap() = address;
            assert_eq!(old.1.process().wait().await.code(), Some(0));
            streams(&new).await;
            *old = (new_workdir, new, address);
        }
        load.abort();
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked < 1_000, "more than a wildcard has: {asked}");
        eventually("every name has its address", async || {
            let status = store.object(WILDCARD).and_then(|object| object.status);
            let names = status.unwrap_or_default().resolved_names.into_iter();
            let found: BTreeSet<String> = names.map(|entry| entry.dns_name).collect();
            let names = (0..asked).map(|n| format!("n{n}.load.example.com."));
            let missing: Vec<_> = names.filter(|name| !found.contains(name)).collect();
            let all = missing.is_empty().then_some(());
            all.ok_or_else(|| format!("{missing:?} of {asked}"))
        })
        .await;
    }
}

//! From a look-up at the stock CoreDNS to packets that pass, while names change, rules go, and everything is restarted.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tests::{datapath::Pod, wait::eventually};

use super::{
    is_dropped, passes,
    town::{PORT, Town},
};

const WWW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 21);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

const NAMES: [&str; 3] = ["www.example.com.", "turns.example.com.", "*.w.example.com."];

/// The first packet of a connection is sent again after a second: whoever needs longer lost it.
const RESENT: Duration = Duration::from_millis(950);

fn zone(turns: Ipv4Addr) -> String {
    format!("www IN A {WWW}\nturns 1 IN A {turns}\nother IN A {OTHER}\n")
}

/// Connections of a pod, one after another, for as long as it lasts.
struct Traffic {
    ends: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

impl Traffic {
    /// To an address that is allowed, and to one that is not.
    fn start(pod: Pod, allowed: Ipv4Addr, denied: Ipv4Addr) -> Self {
        let (ends, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (until, count) = (Arc::clone(&ends), Arc::clone(&made));
        let [allowed, denied] = [allowed, denied].map(|to| SocketAddr::from((to, PORT)));
        let thread = thread::spawn(move || {
            let mut wrong = Vec::new();
            while !until.load(Relaxed) {
                let start = Instant::now();
                let connected = pod.connect_within(allowed, Duration::from_secs(3));
                let took = start.elapsed();
                if connected.is_err() || took > RESENT {
                    wrong.push(format!("{allowed} after {took:?}: {connected:?}"));
                }
                let connected = pod.connect_within(denied, Duration::from_millis(20));
                if let Ok(connected) = connected {
                    wrong.push(format!("{denied}: {connected:?}"));
                }
                count.fetch_add(1, Relaxed);
            }
            wrong
        });
        Self { ends, made, thread }
    }

    /// Waits for some more connections.
    async fn goes_on(&self) {
        let before = self.made.load(Relaxed);
        eventually("connections are made", async || {
            let more = self.made.load(Relaxed) - before;
            (more > 10).then_some(()).ok_or_else(|| more.to_string())
        })
        .await;
    }

    /// How many there were.
    ///
    /// # Panics
    /// If one was not as it should be.
    fn end(self) -> usize {
        self.ends.store(true, Relaxed);
        let wrong = self.thread.join().unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        self.made.load(Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reaches_what_it_looks_up_if_its_rule_allows_the_name_and_only_as_long() {
    let times = ["--min-ttl", "1s", "--grace", "1s", "--flush-probe", "10ms"];
    let Some(town) = Town::start(&zone(FIRST), &NAMES, &times).await else {
        return;
    };
    let pod = town.pod;
    // The collector knew the address before anybody asked.
    passes(pod, WWW).await;
    assert_eq!(town.look_up(NAMES[0]), [WWW]);
    assert_eq!(town.look_up("other.example.com."), [OTHER]);
    is_dropped(pod, OTHER).await;
    // Of a name under a wildcard it learns from the pod's own look-up.
    let deep = Ipv4Addr::new(198, 51, 3, 7);
    is_dropped(pod, deep).await;
    assert_eq!(town.look_up("f3-7.w.example.com."), [deep]);
    passes(pod, deep).await;
    // An address that comes passes, and one that went is dropped when it is over.
    passes(pod, FIRST).await;
    is_dropped(pod, SECOND).await;
    town.set_zone(2, &zone(SECOND));
    passes(pod, SECOND).await;
    is_dropped(pod, FIRST).await;
    passes(pod, SECOND).await;
    // A rule that goes closes, whatever others there are.
    town.store.allow("team", &NAMES[..1]);
    is_dropped(pod, SECOND).await;
    is_dropped(pod, deep).await;
    passes(pod, WWW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_allowed_connection_is_refused_while_everything_is_restarted_in_turn() {
    let Some(mut town) = Town::start(&zone(FIRST), &NAMES, &[]).await else {
        return;
    };
    passes(town.pod, WWW).await;
    is_dropped(town.pod, OTHER).await;
    let traffic = Traffic::start(town.pod, WWW, OTHER);
    traffic.goes_on().await;
    town.collector.restart().await;
    traffic.goes_on().await;
    town.collector.ready().await;
    town.ovn_writer.restart().await;
    traffic.goes_on().await;
    town.ovn_writer.ready().await;
    town.coredns.restart().await;
    traffic.goes_on().await;
    town.northbound.restart().await;
    traffic.goes_on().await;
    town.ovn_writer.ready().await;
    town.datapath.restart_northd(&town.northbound);
    traffic.goes_on().await;
    town.datapath.restart_controller();
    traffic.goes_on().await;
    // And it works: what is learned now passes.
    let deep = Ipv4Addr::new(198, 51, 4, 1);
    eventually("a new address passes", async || {
        town.look_up("f4-1.w.example.com.");
        let connected: io::Result<_> = town.pod.connect((deep, PORT).into());
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let made = traffic.end();
    println!("{made} connections were made meanwhile, and as many tried that are not allowed");
}

//! From a look-up at the stock CoreDNS to passing packets, while names change, rules are removed, and the programs are
//! restarted.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use proto::api::Family;
use tests::{datapath::Pod, or_skip, wait::eventually};

use super::{
    datapath_fixture::{DatapathFixture, PORT},
    is_dropped, passes,
};

const WWW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 21);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

const NAMES: [&str; 3] = ["www.example.com.", "turns.example.com.", "*.w.example.com."];

/// The first packet of a connection is sent again after 1, 3, 7, 15 and 31 seconds.
const LONGEST: Duration = Duration::from_secs(45);

fn zone(turns: Ipv4Addr) -> String {
    format!("www IN A {WWW}\nturns 1 IN A {turns}\nother IN A {OTHER}\n")
}

/// Connections of a pod, one after another, to an allowed address and to one that is not.
struct Traffic {
    ends: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    /// What went wrong.
    thread: JoinHandle<Vec<String>>,
}

impl Traffic {
    fn start(pod: Pod, allowed: Ipv4Addr, denied: Ipv4Addr) -> Self {
        let (ends, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_over, count) = (Arc::clone(&ends), Arc::clone(&made));
        let [allowed, denied] = [allowed, denied].map(|to| SocketAddr::from((to, PORT)));
        let thread = thread::spawn(move || {
            let mut wrong = Vec::new();
            while !is_over.load(Relaxed) {
                if let Err(error) = pod.connect_within(allowed, LONGEST) {
                    wrong.push(format!("{allowed}: {error}"));
                }
                if let Ok(connected) = pod.connect_within(denied, Duration::from_millis(20)) {
                    wrong.push(format!("{denied}: {connected:?}"));
                }
                count.fetch_add(1, Relaxed);
            }
            wrong
        });
        Self { ends, made, thread }
    }

    async fn goes_on(&self) {
        let before = self.made.load(Relaxed);
        eventually("connections are made", async || {
            let more = self.made.load(Relaxed) - before;
            (more > 10).then_some(()).ok_or_else(|| more.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reaches_a_looked_up_name_only_while_its_rule_allows_it() {
    let times = ["--min-ttl", "1s", "--grace", "1s", "--flush-probe", "10ms"];
    let town = or_skip!(DatapathFixture::start(&zone(FIRST), &NAMES, &times).await);
    let pod = town.pod;
    // The collector knew the address before the first query, so the first packet passes.
    eventually("the set of the name", async || {
        let rows = town.northbound.sets(NAMES[0], Family::V4)?;
        let mut addresses = rows.iter().flat_map(|row| &row.addresses);
        let is_there = addresses.any(|address| *address == WWW.to_string());
        is_there.then_some(()).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
    town.settled().await;
    pod.connect((WWW, PORT).into()).unwrap();
    assert_eq!(town.look_up(NAMES[0]), [WWW]);
    assert_eq!(town.look_up("other.example.com."), [OTHER]);
    is_dropped(pod, OTHER).await;
    // It learns a name under a wildcard from the pod's own look-up.
    let deep = Ipv4Addr::new(198, 51, 3, 7);
    is_dropped(pod, deep).await;
    assert_eq!(town.look_up("f3-7.w.example.com."), [deep]);
    passes(pod, deep).await;
    // A new address passes, and an old one is dropped after its expiry.
    passes(pod, FIRST).await;
    is_dropped(pod, SECOND).await;
    town.set_zone(2, &zone(SECOND));
    passes(pod, SECOND).await;
    is_dropped(pod, FIRST).await;
    passes(pod, SECOND).await;
    // A removed rule closes its addresses, whichever other rules exist.
    town.set_rules(&NAMES[..1]);
    is_dropped(pod, SECOND).await;
    is_dropped(pod, deep).await;
    passes(pod, WWW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_allowed_connection_is_refused_while_everything_is_restarted_in_turn() {
    let mut town = or_skip!(DatapathFixture::start(&zone(FIRST), &NAMES, &[]).await);
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
    // New addresses pass, too.
    let deep = Ipv4Addr::new(198, 51, 4, 1);
    eventually("a new address passes", async || {
        town.look_up("f4-1.w.example.com.");
        let connected = town.pod.connect((deep, PORT).into());
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await;
    traffic.ends.store(true, Relaxed);
    assert_eq!(traffic.thread.join().unwrap(), [""; 0]);
}

//! From a look-up at the stock CoreDNS to passing packets, while names change, rules are removed, and everything is
//! restarted.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tests::{datapath::Pod, or_skip, wait::eventually};

use super::{
    datapath_fixture::{DatapathFixture, ECHO, PORT},
    is_dropped, passes,
};

const WWW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 21);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

const NAMES: [&str; 3] = ["www.example.com.", "turns.example.com.", "*.w.example.com."];

/// The first packet of a connection is sent again after 1, 3, 7, 15 and 31 seconds: within this time one of them
/// reaches a forwarding switch.
const LONGEST: Duration = Duration::from_secs(45);

fn zone(turns: Ipv4Addr) -> String {
    format!("www IN A {WWW}\nturns 1 IN A {turns}\nother IN A {OTHER}\n")
}

/// Connections of a pod, one after another, until it is dropped.
struct Traffic {
    ends: Arc<AtomicBool>,
    /// A first packet may be lost.
    may_wait: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    /// The errors, and the longest time of an allowed connection.
    thread: JoinHandle<(Vec<String>, Duration)>,
}

impl Traffic {
    /// To an allowed address, and to another one. When the switch has aborted by itself, packets may be lost.
    fn start(
        pod: Pod,
        allowed: Ipv4Addr,
        denied: Ipv4Addr,
        switch_aborts: Arc<AtomicUsize>,
    ) -> Self {
        let (ends, may_wait) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let made = Arc::<AtomicUsize>::default();
        let (until, waits) = (Arc::clone(&ends), Arc::clone(&may_wait));
        let count = Arc::clone(&made);
        let [allowed, denied] = [allowed, denied].map(|to| SocketAddr::from((to, PORT)));
        let thread = thread::spawn(move || {
            let (mut wrong, mut longest) = (Vec::new(), Duration::ZERO);
            while !until.load(Relaxed) {
                let (start, mut waits_for) = (Instant::now(), waits.load(Relaxed));
                let before = pod.sent_again().unwrap();
                let connected = pod.connect_within(allowed, LONGEST);
                let lost = pod.sent_again().unwrap() > before;
                let took = start.elapsed();
                longest = longest.max(took);
                waits_for |= waits.load(Relaxed) || switch_aborts.load(Relaxed) > 0;
                if connected.is_err() || (lost && !waits_for) {
                    wrong.push(format!("{allowed} after {took:?}: {connected:?}"));
                }
                let connected = pod.connect_within(denied, Duration::from_millis(20));
                if let Ok(connected) = connected {
                    wrong.push(format!("{denied}: {connected:?}"));
                }
                count.fetch_add(1, Relaxed);
            }
            (wrong, longest)
        });
        Self {
            ends,
            may_wait,
            made,
            thread,
        }
    }

    async fn goes_on(&self) {
        let before = self.made.load(Relaxed);
        eventually("connections are made", async || {
            let more = self.made.load(Relaxed) - before;
            (more > 10).then_some(()).ok_or_else(|| more.to_string())
        })
        .await;
    }

    /// The number of connections, and the longest time of one.
    ///
    /// # Panics
    /// If one behaved wrongly.
    fn end(self) -> (usize, Duration) {
        self.ends.store(true, Relaxed);
        let (wrong, longest) = self.thread.join().unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        (self.made.load(Relaxed), longest)
    }
}

/// Checks that the server echoes data.
fn echoes(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream.write_all(b"still there?").unwrap();
    let mut back = [0; 12];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still there?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reaches_a_looked_up_name_only_while_its_rule_allows_it() {
    let times = ["--min-ttl", "1s", "--grace", "1s", "--flush-probe", "10ms"];
    let town = or_skip!(DatapathFixture::start(&zone(FIRST), &NAMES, &times).await);
    let pod = town.pod;
    // The collector knew the address before the first query.
    passes(pod, WWW).await;
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
    let traffic = Traffic::start(town.pod, WWW, OTHER, town.datapath.switch_aborts());
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
    // While the switch itself is down there is no forwarding, but no refusal either, and connections survive.
    let held = town.pod.connect((WWW, ECHO).into()).unwrap();
    echoes(&held);
    traffic.may_wait.store(true, Relaxed);
    town.datapath.restart_switch().await;
    traffic.goes_on().await;
    echoes(&held);
    town.datapath.kill_switch();
    traffic.goes_on().await;
    traffic.may_wait.store(false, Relaxed);
    traffic.goes_on().await;
    echoes(&held);
    // New addresses pass, too.
    let deep = Ipv4Addr::new(198, 51, 4, 1);
    eventually("a new address passes", async || {
        town.look_up("f4-1.w.example.com.");
        let connected: io::Result<_> = town.pod.connect((deep, PORT).into());
        connected.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let (made, longest) = traffic.end();
    println!(
        "{made} connections were made meanwhile, the slowest in {longest:?}, and as many tried that are not allowed"
    );
}

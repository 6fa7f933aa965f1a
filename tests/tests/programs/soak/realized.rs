//! The stages of a change from the northbound database to the packets, and the first packet after each.
//!
//! The datapath is Open vSwitch in user space; a kernel with its module would have other times.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ovn_writer::{
    address_set::NORTHBOUND,
    realized::{
        CachedFlows, Committed, Evidence, Proof, Realized, RealizedHandle, RealizedOptions,
        Realizer,
    },
};
use ovsdb_replica::ClientOptions;
use proto::api::Family;
use serde_json::{Value, json};
use tests::{
    datapath::{
        Datapath, Others, Pod, create_address_sets, create_namespace, set_egress_firewall, set_name,
    },
    northbound::Northbound,
    or_skip,
    ovsdb::Client,
    soak::{is_long, or_long},
    wait::eventually,
    workdir::Workdir,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

const TEAM: &str = "team";
const NAME: &str = "www.example.com.";
/// A name with many addresses: each makes a flow of its own in the datapath.
const LARGE: &str = "large.example.com.";

const PORT: u16 = 443;

/// The addresses that are allowed in turn.
const ADDRESSES: u8 = 200;

/// The time-out of a first packet. It is shorter than the time to the second one of a connection.
const LOST: Duration = Duration::from_millis(500);

/// The time in which the packets of an ended connection have arrived.
const QUIET: Duration = Duration::from_millis(30);

/// The pause between two refused packets.
const REFUSAL: Duration = Duration::from_millis(5);

/// How often each flow has a packet. Without one it ends after 10 s.
const KEPT: Duration = Duration::from_secs(4);

/// The stages after which the first packet is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum After {
    Committed,
    Rules,
    CachedFlows,
}

/// A datapath with this many rules in effect.
struct Stage {
    northbound: Client,
    sets: [Value; 2],
    large: Value,
    quiet: Pod,
    refused: Pod,
    /// The changes so far.
    changes: usize,
    /// Without and with the revalidators.
    handles: [RealizedHandle; 2],
    _guards: [DropGuard; 2],
    datapath: Datapath,
    _server: Northbound,
    _workdir: Workdir,
}

/// The first packets after a stage.
struct Passed {
    proof: Proof,
    /// By TCP and UDP, with IPv4 and IPv6.
    lost: [usize; 4],
    passed: usize,
    count: usize,
    /// Changes that OVN did not follow within a second, as on a busy machine. Their packets do not count.
    late: usize,
    rules: Vec<Duration>,
    flows: Vec<Duration>,
}

fn address(number: u8, is_v6: bool) -> IpAddr {
    match is_v6 {
        false => Ipv4Addr::new(192, 0, 2, number).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

impl Stage {
    async fn start(others: Others) -> Result<Self, String> {
        let workdir = Workdir::new();
        let server = Northbound::start(workdir.path()).await;
        let mut datapath = Datapath::start(workdir.path(), &server).await?;
        others.create(&server);
        create_namespace(&server, TEAM);
        let quiet = datapath.pod(&server, TEAM, "quiet", 5).await;
        let refused = datapath.pod(&server, TEAM, "refused", 6).await;
        let outside = datapath.outside();
        outside.owns("192.0.2.0/24");
        outside.owns("2001:db8::/64");
        outside.swallows("10.200.0.0/16");
        outside.serve(PORT);
        let all = (1..=ADDRESSES).flat_map(|n| [address(n, false), address(n, true)]);
        outside.echo_datagrams(&all.collect::<Vec<_>>(), PORT);
        let sets = create_address_sets(&server, NAME, [&[], &[]]);
        let [large, _] = create_address_sets(&server, LARGE, [&[], &[]]);
        // All neighbours are known before there is a rule, so that no packet is refused.
        for pod in [quiet, refused] {
            for is_v6 in [false, true] {
                let to = SocketAddr::from((address(1, is_v6), PORT));
                eventually(&format!("packets to {to} pass"), async || {
                    let connected = pod.connect(to);
                    connected.map(drop).map_err(|error| error.to_string())
                })
                .await;
            }
        }
        sleep(QUIET).await;
        set_egress_firewall(&server, TEAM, &[NAME, LARGE]);
        let realizer = |vswitchd| {
            let (realizer, handle) = Realizer::new(&RealizedOptions {
                northbound: server.remote().parse().unwrap(),
                client: ClientOptions::new(NORTHBOUND),
                southbound: Some(datapath.southbound().parse().unwrap()),
                vswitchd,
            });
            let token = CancellationToken::new();
            tokio::spawn(realizer.run(token.clone()));
            (handle, token.drop_guard())
        };
        let (without, guard) = realizer(None);
        let (with, other_guard) = realizer(Some(datapath.switch_control()));
        Ok(Self {
            northbound: Client::connect(workdir.path())?,
            sets,
            large,
            quiet,
            refused,
            changes: 0,
            handles: [without, with],
            _guards: [guard, other_guard],
            datapath,
            _server: server,
            _workdir: workdir,
        })
    }

    /// Replaces the addresses of the name.
    fn set(&mut self, addresses: &[IpAddr]) {
        let operations = [false, true].into_iter().zip(&self.sets);
        let operations = operations.map(|(is_v6, uuid)| {
            let addresses = addresses.iter().filter(|it| it.is_ipv6() == is_v6);
            let addresses: Vec<_> = addresses.map(ToString::to_string).collect();
            update(uuid, &addresses)
        });
        let operations = operations.collect();
        self.northbound.transact(operations).unwrap();
    }

    /// Adds one address, and waits until that is committed.
    fn add(&mut self, address: IpAddr) -> Committed {
        let uuid = &self.sets[usize::from(address.is_ipv6())];
        let text = address.to_string();
        let operation = json!({
            "op": "mutate", "table": "Address_Set", "where": [["_uuid", "==", uuid]],
            "mutations": [["addresses", "insert", text]],
        });
        self.northbound.transact(vec![operation]).unwrap();
        let family = Family::ALL[usize::from(address.is_ipv6())];
        Committed {
            since: None,
            at: Instant::now(),
            evidence: Evidence {
                set: set_name(NAME, family).into(),
                member: Some((text.into(), true)),
            },
        }
    }

    /// Sends first packets after a stage.
    async fn first_packets(&mut self, pod: Pod, after: After, count: usize) -> Passed {
        let mut passed = Passed {
            proof: Proof::Confirmed,
            lost: [0; 4],
            passed: 0,
            count: 0,
            late: 0,
            rules: Vec::new(),
            flows: Vec::new(),
        };
        for n in 0..count {
            // The end of the last connection is not refused.
            sleep(QUIET).await;
            self.set(&[]);
            sleep(Duration::from_millis(fastrand::u64(60..160))).await;
            // An address that comes back soon would find the flow that dropped it meanwhile.
            let number = self.changes / 2 % usize::from(ADDRESSES) + 1;
            self.changes += 1;
            let kind = n % 4;
            let to = address(number.try_into().unwrap(), kind % 2 == 1);
            let first = FirstPacket::prepare(pod, kind < 2, to);
            let committed = self.add(to);
            let at = committed.at;
            if after != After::Committed {
                let handle = &self.handles[usize::from(after == After::CachedFlows)];
                let realized = handle.ticket(committed).await.unwrap();
                if !passed.note(at, &realized, after) {
                    continue;
                }
            }
            passed.count += 1;
            match first.passes(to).await {
                true => passed.passed += 1,
                false => passed.lost[kind] += 1,
            }
        }
        passed
    }

    /// Makes this many flows in the datapath, until the value is dropped.
    async fn flows(&mut self, count: u16) -> Traffic {
        let all = (0..count).map(|n| Ipv4Addr::from(0x0ac8_0000 + u32::from(n)));
        let all: Vec<Ipv4Addr> = all.collect();
        let texts: Vec<_> = all.iter().map(ToString::to_string).collect();
        let operation = update(&self.large, &texts);
        self.northbound.transact(vec![operation]).unwrap();
        sleep(Duration::from_secs(1)).await;
        let socket = self.refused.udp_socket(Ipv4Addr::LOCALHOST.into()).unwrap();
        let pause = KEPT / u32::from(count).max(1);
        let mut next = all.into_iter().cycle();
        let traffic = Traffic::start(pause.max(Duration::from_micros(200)), move || {
            let to = next.next()?;
            let _refused = socket.send_to(b"x", (to, PORT));
            Some(())
        });
        sleep(2 * KEPT * u32::from(count > 0)).await;
        traffic
    }
}

fn update(uuid: &Value, addresses: &[String]) -> Value {
    json!({
        "op": "update", "table": "Address_Set", "where": [["_uuid", "==", uuid]],
        "row": {"addresses": ["set", addresses]},
    })
}

/// A socket that is ready to send.
enum FirstPacket {
    Tcp(tokio::net::TcpSocket),
    Udp(UdpSocket),
}

impl FirstPacket {
    fn prepare(pod: Pod, is_tcp: bool, to: IpAddr) -> Self {
        match is_tcp {
            true => {
                let socket = pod.tcp_socket(to).unwrap();
                // It ends with one packet.
                socket.set_zero_linger().unwrap();
                Self::Tcp(socket)
            }
            false => Self::Udp(pod.udp_socket(to).unwrap()),
        }
    }

    async fn passes(self, to: IpAddr) -> bool {
        let to = SocketAddr::from((to, PORT));
        match self {
            Self::Tcp(socket) => timeout(LOST, socket.connect(to))
                .await
                .is_ok_and(|it| it.is_ok()),
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(LOST)).unwrap();
                socket.send_to(b"x", to).unwrap();
                tokio::task::block_in_place(|| socket.recv(&mut [0; 8]).is_ok())
            }
        }
    }
}

/// Packets at a steady pace, until it is dropped.
struct Traffic {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start(pause: Duration, mut send: impl FnMut() -> Option<()> + Send + 'static) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let until = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            while !until.load(Relaxed) && send().is_some() {
                thread::sleep(pause);
            }
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }

    /// Packets of a pod to neighbours of the addresses, which are refused.
    fn refused(pod: Pod) -> Self {
        let sockets = [false, true].map(|is_v6| pod.udp_socket(address(1, is_v6)).unwrap());
        Self::start(REFUSAL, move || {
            let is_v6 = fastrand::bool();
            let to = address(fastrand::u8(ADDRESSES + 1..=254), is_v6);
            let _refused = sockets[usize::from(is_v6)].send_to(b"x", (to, PORT));
            Some(())
        })
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Passed {
    /// Records the stages of a change. Returns whether the rules are in.
    fn note(&mut self, committed: Instant, realized: &Realized, after: After) -> bool {
        match realized.proof {
            Proof::Confirmed | Proof::Assumed(_) => self.proof = realized.proof,
            Proof::Late(_) => {
                self.late += 1;
                return false;
            }
            Proof::Unknown(reason) => panic!("{reason}"),
        }
        let since = |at: tokio::time::Instant| at.into_std().duration_since(committed);
        self.rules.push(since(realized.rules_at));
        match &realized.cached_flows {
            CachedFlows::Gone(at) => self.flows.push(since(*at)),
            CachedFlows::Unknown(reason) => assert_ne!(after, After::CachedFlows, "{reason}"),
        }
        true
    }

    /// Prints it. Only scripts/soak asserts the least number of packets that pass, of 500.
    fn judge(mut self, what: &str, least: Option<usize>) {
        println!(
            "{what}: {} of {} passed, {} more were late; lost with TCP {} v4, {} v6, with UDP {} v4, {} v6;{}{}",
            self.passed,
            self.count,
            self.late,
            self.lost[0],
            self.lost[1],
            self.lost[2],
            self.lost[3],
            quantiles("rules", &mut self.rules),
            quantiles("cached flows", &mut self.flows),
        );
        if let Some(least) = least.filter(|_| is_long()) {
            assert!(self.passed * 500 >= least * self.count, "{what}");
            assert!(self.late * 100 <= self.count, "{what}");
        }
    }
}

fn quantiles(what: &str, times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len().saturating_sub(1) * part / 100);
    match (at(50), at(99)) {
        (Some(median), Some(late)) => format!(
            " {what} after p50 {:.1} ms, p99 {:.1} ms;",
            median.as_secs_f64() * 1e3,
            late.as_secs_f64() * 1e3
        ),
        _ => String::new(),
    }
}

/// The others' rules, for about 10, 1,000 and 4,000 in effect.
const OTHERS: [Others; 3] = [
    Others {
        with_pod: 2,
        names_each: 2,
    },
    Others {
        with_pod: 100,
        names_each: 7,
    },
    Others {
        with_pod: 100,
        names_each: 37,
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn the_first_packet_passes_after_a_change_is_realized() {
    let count = or_long(8, 500);
    // The number of flows counts with 1,000 rules only: each combination takes minutes.
    let flows: [&[u16]; 3] = [&[0], &[0, 1_000, 5_000], &[0]];
    let cases = OTHERS.iter().zip(flows);
    for (others, flows) in cases.take(or_long(1, OTHERS.len())) {
        let acls = others.acls();
        let mut stage = or_skip!(Stage::start(*others).await);
        let quiet = stage.quiet;
        // The packets that are lost without a wait leave flows behind, so these come last.
        for after in [After::Rules, After::Committed] {
            let passed = stage.first_packets(quiet, after, count).await;
            let least = match (after, passed.proof) {
                (After::Rules, Proof::Confirmed) => Some(499),
                (After::Rules, _) => Some(480),
                (After::Committed | After::CachedFlows, _) => None,
            };
            passed.judge(&format!("{acls} ACLs, quiet pod, after {after:?}"), least);
        }
        let _refused = Traffic::refused(stage.refused);
        for flows in flows {
            let _traffic = stage.flows(*flows).await;
            let shown = stage.datapath.ask_switch(&["upcall/show"]).unwrap();
            let shown = shown.lines().find(|line| line.contains("flows"));
            println!("{}", shown.unwrap_or_default().trim());
            for (after, least) in [(After::Rules, None), (After::CachedFlows, Some(495))] {
                let pod = stage.refused;
                let passed = stage.first_packets(pod, after, count).await;
                let what = format!("{acls} ACLs, refused pod, {flows} flows more, after {after:?}");
                passed.judge(&what, least);
            }
        }
    }
}

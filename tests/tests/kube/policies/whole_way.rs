//! From answers of a stock CoreDNS to NetworkPolicies: the collector and the policy-writer together.

use std::{
    collections::BTreeSet,
    fs,
    net::IpAddr,
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};
use tests::{
    coredns::{CoreDns, free_port, write_zone},
    programs::Program,
    soak::or_long,
    wait::eventually,
    workdir::Workdir,
};
use tokio::task::JoinSet;

use super::world::{NAMES, World, addresses_of, is_open};
use crate::collectors::{Objects, allow};

const FIREWALLS: &str = "ovn-kubernetes";

const ZONE: &str = "example.com.";

/// How long an address stays after the last answer that had it.
const RETAIN: Duration = Duration::from_secs(4);

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    file example.com.zone example.com {
        reload 1s
    }
}
";

/// CoreDNS → collector → API server → policy-writer, all ready. Fields are in the order in which they are dropped.
struct WholeWay {
    coredns: CoreDns,
    collector: Program,
    world: World,
    workdir: Workdir,
    serial: u32,
}

impl WholeWay {
    async fn start(records: &str) -> Self {
        let (world, workdir) = (World::start(&[]).await, Workdir::new());
        world.server.make_namespace(FIREWALLS).await;
        fs::write(workdir.join("Corefile"), COREFILE).unwrap();
        write_zone(&workdir.join("example.com.zone"), ZONE, 1, records);
        let (address, socket) = (free_port(), workdir.join("dnstap.sock"));
        let flags = [
            ("--store", "kube".to_owned()),
            ("--rules", "egressfirewall,dnsresolver".to_owned()),
            ("--objects-namespace", FIREWALLS.to_owned()),
            ("--dnsresolver-objects-namespace", NAMES.to_owned()),
            ("--manage-objects", "always".to_owned()),
            ("--listen", format!("unix://{}", socket.display())),
            ("--resolver", address.to_string()),
            ("--min-ttl", "1s".to_owned()),
            ("--grace", "1s".to_owned()),
            ("--retain", format!("{}s", RETAIN.as_secs())),
        ];
        let flags = flags.map(|(flag, value)| [flag.to_owned(), value]);
        let kubeconfig = world.server.kubeconfig().display().to_string();
        let collector = Program::start_with(
            workdir.path(),
            "collector",
            flags.concat(),
            vec![("KUBECONFIG", kubeconfig)],
        )
        .await;
        let coredns = CoreDns::start_at(workdir.path(), address).await;
        collector.ready().await;
        Self {
            coredns,
            collector,
            world,
            workdir,
            serial: 1,
        }
    }

    /// Replaces the records of the zone. Returns a time before any answer had the new ones.
    async fn set_zone(&mut self, records: &str) -> Instant {
        let began = Instant::now();
        self.serial += 1;
        let file = self.workdir.join("example.com.zone");
        write_zone(&file, ZONE, self.serial, records);
        self.coredns.serves(ZONE, self.serial).await;
        began
    }

    async fn resolver(&self, domains: &[&str]) {
        let spec = json!({ "domainList": domains });
        self.world.resolver("a", spec).await;
    }

    /// Waits until the IPMap says this of each domain.
    async fn maps(&self, expected: &Value) {
        eventually("the IPMap", async || {
            let map = self.world.map("a").await.ok_or("there is none")?;
            let found = serde_json::to_value(map.data).unwrap()["domains"].clone();
            let is_same = found == *expected;
            is_same.then_some(()).ok_or_else(|| found.to_string())
        })
        .await;
    }
}

/// What the policy `a` had, and since when, from a watch.
struct History {
    versions: Arc<Mutex<Vec<Version>>>,
    _task: JoinSet<()>,
}

#[derive(Clone, Debug)]
struct Version {
    at: Instant,
    /// `None` if the policy was deleted.
    addresses: Option<BTreeSet<IpAddr>>,
    is_open: bool,
}

impl Version {
    fn of(policy: &NetworkPolicy) -> Self {
        Self {
            at: Instant::now(),
            addresses: Some(addresses_of(policy).into_iter().collect()),
            is_open: is_open(policy),
        }
    }
}

impl History {
    async fn of(world: &World) -> Self {
        let policies = world.api::<NetworkPolicy>();
        let policy = policies.get("a").await.unwrap();
        let versions = Arc::new(Mutex::new(vec![Version::of(&policy)]));
        let seen = Arc::clone(&versions);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let params = WatchParams::default().fields("metadata.name=a");
            let version = policy.metadata.resource_version.unwrap();
            let mut events = pin!(policies.watch(&params, &version).await.unwrap());
            while let Some(event) = events.next().await {
                let version = match event.unwrap() {
                    WatchEvent::Added(policy) | WatchEvent::Modified(policy) => {
                        Version::of(&policy)
                    }
                    WatchEvent::Deleted(policy) => Version {
                        addresses: None,
                        ..Version::of(&policy)
                    },
                    WatchEvent::Bookmark(_) => continue,
                    other @ WatchEvent::Error(_) => panic!("{other:?}"),
                };
                seen.lock().unwrap().push(version);
            }
        });
        Self {
            versions,
            _task: task,
        }
    }

    /// The policy was always there, no rule was without destinations, and it never lacked an address between the version
    /// that first had it and the time that it may leave.
    async fn kept(&self, world: &World, leave: &[(&str, Instant)]) {
        let policy = world.policy("a").await.unwrap();
        let last = Version::of(&policy).addresses;
        let versions = eventually("the watch is up to date", async || {
            let versions = self.versions.lock().unwrap().clone();
            let newest = versions
                .last()
                .and_then(|version| version.addresses.clone());
            (newest == last)
                .then_some(versions)
                .ok_or_else(|| format!("{newest:?} of {last:?}"))
        })
        .await;
        assert!(!versions.iter().any(|version| version.is_open));
        assert!(versions.iter().all(|version| version.addresses.is_some()));
        for (address, leaves) in leave {
            let ip: IpAddr = address.parse().unwrap();
            let has = |version: &&Version| version.addresses.as_ref().unwrap().contains(&ip);
            let had = versions.iter().skip_while(|version| !has(version));
            let missing = had.clone().find(|version| !has(version));
            assert!(had.count() > 0, "{address} never came");
            if let Some(missing) = missing {
                let early = leaves.saturating_duration_since(missing.at);
                assert!(early.is_zero(), "{address} left {early:?} early");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_zone_come_into_a_policy_and_leave_after_retention() {
    let apps = "n1.apps 2 IN A 203.0.113.21\nn2.apps 2 IN AAAA 2001:db8::22";
    let upper = "upper 2 IN A 203.0.113.11\nupper 2 IN AAAA 2001:db8::11";
    let first = format!("www 2 IN A 203.0.113.1\n{upper}\n{apps}");
    let mut way = WholeWay::start(&first).await;
    way.resolver(&[
        "www.example.com",
        "*.apps.example.com",
        "UPPER.Example.com.",
    ])
    .await;
    let looked_up = ["203.0.113.1", "203.0.113.11", "2001:db8::11"];
    way.world.has("a", &looked_up).await;
    // The names under a wildcard are those that clients ask for.
    for name in ["n1.apps.example.com.", "N2.apps.example.com."] {
        way.coredns.look_up(name).await;
    }
    let found = ["203.0.113.21", "2001:db8::22"];
    way.world.has("a", &[&looked_up[..], &found].concat()).await;
    let expected = json!([
        {"name": "www.example.com", "ips": ["203.0.113.1/32"]},
        {"name": "*.apps.example.com", "ips": ["203.0.113.21/32", "2001:db8::22/128"]},
        {"name": "UPPER.Example.com.", "ips": ["203.0.113.11/32", "2001:db8::11/128"]},
    ]);
    way.maps(&expected).await;
    way.world.is_ready("a").await;
    for (to, expected) in [("203.0.113.21", true), ("203.0.113.2", false)] {
        assert_eq!(way.world.passes(to).await, [expected; 2], "{to}");
    }

    // Names rotate: new addresses come beside the old ones, which leave after their retention.
    let history = History::of(&way.world).await;
    let before = Instant::now();
    let mut leave = Vec::new();
    for (name, address) in [
        ("www.example.com.", "203.0.113.1"),
        ("n1.apps.example.com.", "203.0.113.21"),
    ] {
        let reply = &way.coredns.look_up(name).await[0];
        assert_eq!(reply.addresses(), [address.parse::<IpAddr>().unwrap()]);
        leave.push((address, before + RETAIN));
    }
    let apps = "n1.apps 2 IN A 203.0.113.23\nn2.apps 2 IN AAAA 2001:db8::22";
    let records = format!("www 2 IN A 203.0.113.2\n{upper}\n{apps}");
    let rotated = way.set_zone(&records).await;
    let new = ["203.0.113.2", "203.0.113.23"];
    way.world.has_at_least("a", &new).await;
    let stay = ["203.0.113.11", "2001:db8::11", "2001:db8::22"];
    way.world.has("a", &[&new[..], &stay].concat()).await;
    leave.extend(stay.map(|address| (address, rotated + RETAIN)));
    history.kept(&way.world, &leave).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_programs_lose_no_address_while_names_rotate() {
    let of_round = |round: u8| (round..round + 3).map(|last| format!("203.0.113.{last}"));
    let records = |round: u8| {
        let rotating = of_round(round).map(|ip| format!("www 2 IN A {ip}\n"));
        rotating.collect::<String>() + "api 2 IN A 198.51.100.1"
    };
    let mut way = WholeWay::start(&records(0)).await;
    way.resolver(&["www.example.com", "api.example.com"]).await;
    way.world.has_at_least("a", &["203.0.113.2"]).await;
    let history = History::of(&way.world).await;
    let rounds: u8 = or_long(3, 40);
    let mut began = vec![Instant::now()];
    for round in 1..=rounds {
        // The collector, the policy-writer, or both are away while the name rotates.
        let (reader, writer) = (round % 3 != 1, round % 3 != 2);
        if reader {
            way.collector.process().kill();
        }
        if writer {
            way.world.program.process().kill();
        }
        began.push(way.set_zone(&records(round)).await);
        if reader {
            way.collector.restart().await;
        }
        if writer {
            way.world.program.restart().await;
        }
        // The answer with the newest address also had the others of its round.
        let current: Vec<_> = of_round(round).collect();
        let current: Vec<_> = current.iter().map(String::as_str).collect();
        way.world.has_at_least("a", &current).await;
    }
    let last: Vec<_> = of_round(rounds)
        .chain(["198.51.100.1".to_owned()])
        .collect();
    let last: Vec<_> = last.iter().map(String::as_str).collect();
    // After a restart the collector knows stored times alone, which are 15 minutes longer. So older addresses may stay.
    way.world.has_at_least("a", &last).await;
    let name = |number: u8| format!("203.0.113.{number}");
    let rotated: Vec<_> = (0..rounds)
        .map(|round| (name(round), began[usize::from(round)] + RETAIN))
        .collect();
    let now = Instant::now();
    let leave = rotated.iter().map(|(ip, at)| (ip.as_str(), *at));
    let leave: Vec<_> = leave.chain(last.iter().map(|ip| (*ip, now))).collect();
    history.kept(&way.world, &leave).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_a_firewall_and_a_resolver_is_filled_in_both() {
    let mut way = WholeWay::start("www 2 IN A 203.0.113.1").await;
    let namespace = way.world.server.namespace().await;
    allow(&way.world.server, &namespace, &["www.example.com"]).await;
    way.resolver(&["WWW.example.com"]).await;
    let of_firewalls = Objects::of(&way.world.server, FIREWALLS).await;
    let of_resolvers = Objects::of(&way.world.server, NAMES).await;
    for address in ["203.0.113.1", "203.0.113.2"] {
        way.set_zone(&format!("www 2 IN A {address}")).await;
        way.world.has("a", &[address]).await;
        for objects in [&of_firewalls, &of_resolvers] {
            objects.expect("www.example.com.", &[address]).await;
        }
    }
}

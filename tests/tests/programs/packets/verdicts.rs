//! `egress learn --against` says of each address what OVN does with the packets to it.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    thread,
    time::Duration,
};

use proto::api::{DnsName, EgressFirewallSpec, KnownName, Rules, Verdict};
use serde_json::{Value, json};
use tests::{
    datapath::{Datapath, Pod, create_namespace, create_sets, set_rules},
    northbound::Northbound,
    or_skip,
    wait::eventually,
    workdir::Workdir,
};

/// Each round sets the rules of all pods, which are in a namespace each.
const PODS: u8 = 20;
const ROUNDS: u8 = 15;

/// The number of the first pod.
const FIRST: u8 = 5;

const MOST_RULES: usize = 6;

/// Some names share an address.
const NAMES: [(&str, &[&str]); 6] = [
    ("a.example.com", &["192.0.2.1", "2001:db8::1"]),
    ("b.example.com", &["192.0.2.2"]),
    ("c.example.com", &["192.0.2.1", "192.0.2.3"]),
    ("x.w.example.com", &["192.0.2.4", "2001:db8::4"]),
    ("y.w.example.com", &["192.0.2.2", "192.0.2.5"]),
    ("without.example.com", &[]),
];

const WILDCARD: &str = "*.w.example.com";

const NETWORKS: [&str; 8] = [
    "192.0.2.0/24",
    "192.0.2.0/30",
    "192.0.2.4/31",
    "192.0.2.1/32",
    "198.51.100.0/24",
    "2001:db8::/64",
    "0.0.0.0/0",
    "::/0",
];

/// Also addresses that no name has.
const ADDRESSES: [&str; 9] = [
    "192.0.2.1",
    "192.0.2.2",
    "192.0.2.3",
    "192.0.2.4",
    "192.0.2.5",
    "192.0.2.6",
    "2001:db8::1",
    "2001:db8::4",
    "2001:db8::6",
];

const PORTS: [u16; 2] = [443, 80];

/// A dropped connection fails after this time; a slow one passes earlier.
const PATIENCE: Duration = Duration::from_secs(1);

fn known() -> Vec<KnownName> {
    let known = NAMES.map(|(name, addresses)| {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap());
        (name.to_owned(), addresses.collect::<BTreeSet<IpAddr>>())
    });
    known.to_vec()
}

/// The sets of the names and of the wildcard, as an ovn-writer fills them.
fn sets() -> Vec<(DnsName, Vec<IpAddr>)> {
    let rules = NAMES.iter().map(|(name, _)| *name).chain([WILDCARD]);
    let sets = rules.map(|rule| {
        let rule = DnsName::parse(rule).unwrap();
        let of_rule = NAMES
            .iter()
            .filter(|(name, _)| rule.matches(&DnsName::parse(name).unwrap()));
        let addresses: BTreeSet<IpAddr> = of_rule
            .flat_map(|(_, addresses)| addresses.iter().map(|ip| ip.parse().unwrap()))
            .collect();
        (rule, addresses.into_iter().collect())
    });
    sets.collect()
}

fn random_rule(random: &mut fastrand::Rng) -> Value {
    let to = match random.u8(0..8) {
        0..4 => json!({ "dnsName": random.choice(NAMES).unwrap().0.to_uppercase() }),
        4 => json!({ "dnsName": WILDCARD }),
        _ => json!({ "cidrSelector": random.choice(NETWORKS).unwrap() }),
    };
    let kind = random.choice(["Allow", "Deny"]).unwrap();
    let mut rule = json!({ "type": kind, "to": to });
    if random.u8(0..3) == 0 {
        let port = |random: &mut fastrand::Rng| {
            let protocol = random.choice(["TCP", "TCP", "UDP"]).unwrap();
            json!({ "protocol": protocol, "port": random.choice(PORTS).unwrap() })
        };
        let ports: Vec<_> = (0..random.usize(1..3)).map(|_| port(random)).collect();
        rule["ports"] = ports.into();
    }
    rule
}

fn random_rules(random: &mut fastrand::Rng) -> EgressFirewallSpec {
    let rules = (0..random.usize(1..=MOST_RULES)).map(|_| random_rule(random));
    let rules: Vec<Value> = rules.collect();
    serde_json::from_value(json!({ "egress": rules })).unwrap()
}

/// Whether a connection passes by the verdict.
fn expected(rules: &Rules, to: SocketAddr) -> bool {
    let port = format!("TCP {}", to.port());
    match rules.verdict(to.ip()) {
        Verdict::Passes => true,
        Verdict::OnlyPorts(ports) => ports.contains(&port),
        Verdict::NotPorts(ports) => !ports.contains(&port),
        Verdict::Denied(_) | Verdict::NoRule => false,
    }
}

fn destinations() -> impl Iterator<Item = SocketAddr> {
    ADDRESSES.iter().flat_map(|ip| {
        let ip: IpAddr = ip.parse().unwrap();
        PORTS.map(|port| SocketAddr::new(ip, port))
    })
}

/// Connects from all pods to all destinations at once. Returns where a connection did not go as expected.
fn surprises(pods: &[Pod], rules: &[Rules]) -> Vec<(usize, SocketAddr, bool)> {
    thread::scope(|scope| {
        let mut probes = Vec::new();
        for (index, (pod, rules)) in pods.iter().zip(rules).enumerate() {
            for to in destinations() {
                probes.push(scope.spawn(move || {
                    let passes = match pod.connect_within(to, PATIENCE) {
                        Ok(_) => true,
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => false,
                        Err(error) => panic!("{to}: {error}"),
                    };
                    (passes != expected(rules, to)).then_some((index, to, passes))
                }));
            }
        }
        let surprises = probes.into_iter().filter_map(|it| it.join().unwrap());
        surprises.collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn verdict_of_300_random_rule_sets_is_what_packets_do() {
    let workdir = Workdir::new();
    let northbound = Northbound::start(workdir.path()).await;
    let mut datapath = or_skip!(Datapath::start(workdir.path(), &northbound).await);
    create_sets(&northbound, &sets());
    let outside = datapath.outside();
    outside.owns("192.0.2.0/24");
    outside.owns("2001:db8::/64");
    PORTS.iter().for_each(|port| outside.serve(*port));
    let mut pods = Vec::new();
    for number in 0..PODS {
        let namespace = format!("team{number}");
        create_namespace(&northbound, &namespace);
        let name = format!("pod{number}");
        pods.push(
            datapath
                .pod(&northbound, &namespace, &name, FIRST + number)
                .await,
        );
    }
    // Without rules everything passes, so a later drop is caused by a rule.
    let none: Vec<Rules> = pods
        .iter()
        .map(|_| Rules::of_firewall(&EgressFirewallSpec::default(), &[]))
        .collect();
    eventually("everything passes", async || {
        let surprises = surprises(&pods, &none);
        surprises
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{surprises:?}"))
    })
    .await;
    let mut random = fastrand::Rng::with_seed(47);
    let (mut passed, mut dropped) = (0, 0);
    for round in 0..ROUNDS {
        let specs: Vec<_> = pods.iter().map(|_| random_rules(&mut random)).collect();
        for (number, spec) in specs.iter().enumerate() {
            set_rules(&northbound, &format!("team{number}"), spec);
        }
        eventually("OVN is in sync", async || {
            northbound.nbctl(&["--wait=hv", "sync"])
        })
        .await;
        let rules: Vec<_> = specs
            .iter()
            .map(|spec| Rules::of_firewall(spec, &known()))
            .collect();
        eventually(&format!("round {round}"), async || {
            let surprises = surprises(&pods, &rules);
            let words = surprises.iter().map(|(index, to, passes)| {
                let spec = json!(specs[*index].egress);
                format!("{to} passes: {passes}, rules: {spec}")
            });
            let words: Vec<_> = words.collect();
            words
                .is_empty()
                .then_some(())
                .ok_or_else(|| words.join("\n"))
        })
        .await;
        let all = rules
            .iter()
            .flat_map(|rules| destinations().map(|to| expected(rules, to)));
        let (pass, drop): (Vec<bool>, _) = all.partition(|passes| *passes);
        passed += pass.len();
        dropped += drop.len();
    }
    let sets = usize::from(PODS) * usize::from(ROUNDS);
    println!(
        "{sets} rule sets: {passed} connections passed and {dropped} were dropped, as the verdicts say"
    );
    assert!(passed > 1000 && dropped > 1000, "{passed} {dropped}");
}

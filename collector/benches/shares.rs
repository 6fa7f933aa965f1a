//! The cost of computing the usage of each namespace, which the controller does once a second,
//! relative to the metrics of the same names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Instant};

use collector::{
    clients::{Clients, Namespace},
    controller::{Config, StatusController},
    objects::{ManageObjects, ObjectPolicy, Shared},
    observation::{Addresses, Observation, Provenance},
    rules::{RetentionPolicy, Source, Wanted, WantedName},
    state::Limits,
};
use proto::api::{DnsName, Family};
use runtime::{
    clock::Timestamp,
    cluster_cidrs::{Networks, Purpose},
    store::{Event, ObjectKey},
};

const NAMES: usize = 100_000;
const NAMESPACES: usize = 10_000;

/// Full wildcards, each of eight namespaces.
const WILDCARDS: usize = 50;
const FOUND: usize = 800;
const SHARING: usize = 8;

const TURNS: usize = 40;

/// The most that one computation may cost, relative to the metrics.
const LIMIT: f64 = 3.0;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn address(i: usize) -> IpAddr {
    (0x0b00_0000 + u32::try_from(i).unwrap())
        .to_be_bytes()
        .into()
}

fn pod(namespace: usize) -> IpAddr {
    (0x0af4_0000 + u32::try_from(namespace).unwrap())
        .to_be_bytes()
        .into()
}

fn controller(clients: &Clients) -> StatusController {
    let mut controller = StatusController::new(Config {
        objects: ObjectPolicy::of_egress_firewalls("ovn", ManageObjects::Always),
        limits: Limits {
            lookups: true,
            ..Limits::default()
        },
        shared: Shared {
            clients: clients.clone(),
            ..Shared::default()
        },
        ..Config::default()
    });
    controller.event(Source::EgressFirewall, Event::Synced(Vec::new()), at(0));
    controller.lead(true, at(0));
    controller
}

/// Namespaces of ten names each, and wildcards that some of them share.
fn wanted(numbers: &[Namespace]) -> Wanted {
    let terms = RetentionPolicy {
        allowed: true,
        ..RetentionPolicy::default()
    };
    let mut wanted = Wanted {
        in_sync: true,
        ..Wanted::default()
    };
    let mut orders: BTreeMap<Namespace, Vec<DnsName>> = BTreeMap::new();
    let mut add = |name: DnsName, namespaces: Vec<Namespace>| {
        for namespace in &namespaces {
            orders.entry(*namespace).or_default().push(name.clone());
        }
        let in_use = WantedName {
            namespaces: namespaces.into(),
            ..WantedName::with_retention(terms)
        };
        wanted.names.insert(name, Arc::new(in_use));
    };
    for i in 0..NAMES {
        add(
            name(&format!("n{i}.example.com")),
            vec![numbers[i % NAMESPACES]],
        );
    }
    for i in 0..WILDCARDS {
        let of = &numbers[i * SHARING..(i + 1) * SHARING];
        add(name(&format!("*.w{i}.example.com")), of.to_vec());
    }
    wanted.order = orders.into_iter().map(|(it, of)| (it, of.into())).collect();
    wanted
}

fn answer(asked: &str, i: usize, client: IpAddr) -> Observation {
    Observation {
        name: name(asked),
        family: Family::V4,
        addresses: Addresses::from_iter([(address(2 * i), 3600), (address(2 * i + 1), 3600)]),
        at: at(0),
        answered_at: None,
        given: at(0),
        client: Some(client),
        truncated: false,
        source: Provenance::STREAM,
    }
}

fn fill(controller: &mut StatusController) {
    for i in 0..NAMES {
        let asked = format!("n{i}.example.com");
        controller.observe(&answer(&asked, i, pod(i % NAMESPACES)));
    }
    for wildcard in 0..WILDCARDS {
        for found in 0..FOUND {
            let asked = format!("f{found}.w{wildcard}.example.com");
            let i = NAMES + wildcard * FOUND + found;
            for client in 0..SHARING {
                controller.observe(&answer(&asked, i, pod(wildcard * SHARING + client)));
            }
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    println!(
        "shares: {NAMES} names in rules of {NAMESPACES} namespaces, and {} names under {WILDCARDS} wildcards",
        WILDCARDS * FOUND
    );
    let clients = Clients::default();
    let pods = (Purpose::Pods, "10.244.0.0/16".parse().unwrap());
    clients.watch(Some(Arc::new(Networks::new([pods]))));
    let numbers: Vec<Namespace> = (0..NAMESPACES)
        .map(|i| {
            let namespace = format!("team-{i}");
            let number = clients.number(&namespace);
            let name = "pod".to_owned();
            clients.set(ObjectKey { namespace, name }, &[pod(i)]);
            number
        })
        .collect();
    let mut controller = controller(&clients);
    controller.want(&wanted(&numbers).into(), at(0));
    fill(&mut controller);
    let [mut looks, mut reports] = [Vec::new(), Vec::new()];
    for turn in 1..=TURNS {
        let now = at(turn as i64 * 1_000);
        let began = Instant::now();
        controller.tick(now);
        looks.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        controller.report();
        reports.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let known: usize = controller
        .view(at(0))
        .names
        .iter()
        .map(|it| it.addresses)
        .sum();
    assert_eq!(known, 2 * (NAMES + WILDCARDS * FOUND));
    let (look, report) = (median(looks), median(reports));
    println!("a look at what each namespace has          {look:>10.1} ms a second");
    println!("the metrics of the same names              {report:>10.1} ms a second");
    println!(
        "times                                      {:>10.2}                (at most {LIMIT})",
        look / report
    );
    assert!(look <= LIMIT * report, "a look costs too much");
}

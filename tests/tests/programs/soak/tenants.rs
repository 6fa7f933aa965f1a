//! A pod that asks for thousands of random names, and the names of others under the same wildcard.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    dns::ask_over,
    soak,
    transaction_log::departures,
    upstream::{Asked, Say, Scripted, Speech},
    wait::eventually,
    world::{Setup, World},
};
use tokio::net::UdpSocket;

const WILDCARD: &str = "*.up.test.";

/// The names that honest pods use.
const HONEST: u32 = 200;

/// The names under a wildcard, at most.
const CAP: u32 = 1_000;

/// A unique number as an address of 198.18.0.0/15, the network for benchmarks (RFC 2544).
pub(super) fn address(number: u32) -> Ipv4Addr {
    assert!(number < 1 << 17);
    Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + number)
}

/// Names seen at the same moment, as in one flush of CoreDNS, are evicted in the order of their texts: that of their
/// numbers.
fn numbered_name(number: u32) -> String {
    format!("n{number:05}.up.test.")
}

/// The address of the name's number. The name of the zone itself has no data.
fn numbered(asked: &Asked) -> Vec<Say> {
    let name = asked.name();
    let number = name
        .split('.')
        .next()
        .and_then(|label| label.get(1..)?.parse().ok());
    match number.filter(|_| asked.is_v4()) {
        Some(number) => asked.ips(&[address(number).into()], 3600).say(),
        None => asked.reply(ResponseCode::NoError).say(),
    }
}

/// Waits until all these names have their addresses in the set.
async fn all_are_in(world: &World, numbers: Range<u32>) {
    eventually("all names are in the set", async || {
        let rows = world.northbound.sets(WILDCARD, Family::V4)?;
        let has = |i: &u32| {
            let address = address(*i).to_string();
            rows.iter().any(|row| row.addresses.contains(&address))
        };
        let missing: Vec<u32> = numbers.clone().filter(|i| !has(i)).collect();
        let whole = missing.is_empty().then_some(());
        whole.ok_or_else(|| format!("{missing:?} are missing"))
    })
    .await;
}

/// A pod with an address of its own.
struct Client(UdpSocket);

impl Client {
    async fn new(world: &World, last: u8) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0)))
            .await
            .unwrap();
        socket.connect(world.coredns.address()).await.unwrap();
        Self(socket)
    }

    async fn asks_for(&self, numbers: Range<u32>) {
        for number in numbers {
            let name = numbered_name(number);
            let asked = ask_over(&self.0, &name, RecordType::A).await;
            asked.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

/// The pod asks for these names; all but one of them is evicted, or more.
async fn attack(world: &World, pod: &Client, numbers: Range<u32>) {
    let least = (numbers.len() as u32 + HONEST - CAP - 1).into();
    pod.asks_for(numbers).await;
    let names = ["what=\"name\""];
    let evictions = "egress_collector_evictions_total";
    world.collector.counts(evictions, &names, least).await;
}

/// The addresses of honest pods' names that left the set.
fn lost(world: &World) -> Vec<String> {
    let mut left = departures(world.workdir.path());
    let honest: Vec<_> = (0..HONEST).map(address).collect();
    let is_honest = |left: &String| {
        let (_, ip) = left.split_once(' ').unwrap();
        honest.contains(&ip.parse().unwrap())
    };
    left.retain(is_honest);
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_names_of_one_pod_evict_no_name_of_others() {
    let count = soak::or_long(1_500, 20_000);
    let upstream = Scripted::start(numbered).await;
    let mut world = World::start(Setup {
        allow: &[WILDCARD],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let (honest, bad) = (Client::new(&world, 2).await, Client::new(&world, 3).await);
    honest.asks_for(0..HONEST).await;
    all_are_in(&world, 0..HONEST).await;

    attack(&world, &bad, 20_000..20_000 + count).await;
    // A new name of another pod has room.
    honest.asks_for(HONEST..HONEST + 1).await;
    all_are_in(&world, 0..HONEST + 1).await;
    assert_eq!(lost(&world), [""; 0]);

    // A restarted collector does not know who asked for which name.
    world.collector.process().terminate().await;
    world.collector.restart().await;
    world.collector.ready().await;
    world.coredns.restart().await;
    eventually("CoreDNS streams", async || {
        let connections = "egress_collector_connections";
        let streams = world.collector.admin().metric(connections, &[]).await;
        streams
            .is_ok_and(|it| it > 0.5)
            .then_some(())
            .ok_or(connections)
            .map_err(str::to_owned)
    })
    .await;
    attack(&world, &bad, 60_000..60_000 + count).await;
    assert_eq!(lost(&world), [""; 0]);
}

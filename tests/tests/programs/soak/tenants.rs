//! A pod that asks for thousands of random names, and the names of others under the same wildcard.

use std::{net::SocketAddr, ops::Range};

use hickory_proto::rr::RecordType;
use tests::{
    dns::ask_over,
    soak,
    transaction_log::departures,
    wait::eventually,
    world::{Setup, World},
};
use tokio::net::UdpSocket;

use super::{address, all_are_in, numbered_name, numbered_upstream};

const WILDCARD: &str = "*.up.test.";

/// The names that honest pods use.
const HONEST: u32 = 200;

/// The names under a wildcard, at most.
const CAP: u32 = 1_000;

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
    let honest: Vec<_> = (0..HONEST).map(|number| address(number, false)).collect();
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
    let upstream = numbered_upstream(3600).await;
    let mut world = World::start(Setup {
        allow: &[WILDCARD],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let (honest, bad) = (Client::new(&world, 2).await, Client::new(&world, 3).await);
    honest.asks_for(0..HONEST).await;
    all_are_in(&world, WILDCARD, 0..HONEST).await;

    attack(&world, &bad, 20_000..20_000 + count).await;
    // A new name of another pod has room.
    honest.asks_for(HONEST..HONEST + 1).await;
    all_are_in(&world, WILDCARD, 0..HONEST + 1).await;
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

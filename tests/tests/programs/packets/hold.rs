//! First connections to new names under wildcards, with answers that the collector holds and without.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
    time::Duration,
};

use hickory_proto::rr::RecordType;
use tests::{
    coredns::free_port,
    datapath::Pod,
    hold::{forward, hold_flag},
    network::Network,
    or_skip,
    soak::or_long,
    upstream::{Asked, Say, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};

use super::datapath_fixture::{DatapathFixture, PORT};

/// A packet that is dropped is not repeated in this time.
const ATTEMPT: Duration = Duration::from_millis(900);

/// The kinds of connections.
const KINDS: [(RecordType, &str); 4] = [
    (RecordType::A, "TCP"),
    (RecordType::A, "UDP"),
    (RecordType::AAAA, "TCP"),
    (RecordType::AAAA, "UDP"),
];

/// The numbers of names that share a wildcard. A status of many names is written less often than names come here.
const SHARING: usize = 10;

/// The domain of a name by its number, with held answers (1) or without (0).
fn domain(hold: usize, number: usize) -> String {
    format!("h{hold}-{}.up.test.", number / SHARING)
}

/// `nN-K.hH-G.up.test` has an address of its own in each family.
fn numbered(asked: &Asked) -> Vec<Say> {
    let name = asked.name();
    let numbers: Vec<u16> = name
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|it| it.parse().ok())
        .collect();
    let [number, kind, hold, _] = numbers[..] else {
        return asked.addresses(&[], 300).say();
    };
    let place = 4 * hold + kind;
    let v4 = Ipv4Addr::new(198, 51, place as u8, number as u8);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, place + 1, number);
    asked.ips(&[IpAddr::V4(v4), IpAddr::V6(v6)], 300).say()
}

/// The first packets to the address pass.
fn connects(pod: Pod, to: SocketAddr, transport: &str) -> io::Result<()> {
    if transport == "TCP" {
        return pod.connect_within(to, ATTEMPT).map(drop);
    }
    let socket = pod.udp_socket(to.ip())?;
    socket.set_read_timeout(Some(ATTEMPT))?;
    socket.send_to(b"first", to)?;
    socket.recv_from(&mut [0; 64]).map(drop)
}

/// How many first connections of each kind are made at once, to the names of these numbers.
async fn made(town: &DatapathFixture, hold: usize, numbers: Range<usize>) -> [usize; 4] {
    let mut made = [0; 4];
    for number in numbers {
        for (kind, (family, transport)) in KINDS.into_iter().enumerate() {
            let name = format!("n{number}-{kind}.{}", domain(hold, number));
            let (pod, dns) = (town.pod, town.dns_of_pod());
            let connected = tokio::task::spawn_blocking(move || {
                // The switch of the test aborts at times, and starts again.
                let replies = (0..10).map(|_| pod.look_up(dns, &name, family));
                let reply = replies.flatten().next().ok_or(io::ErrorKind::TimedOut)?;
                let to = SocketAddr::new(reply.addresses()[0], PORT);
                Ok::<_, io::Error>(connects(pod, to, transport).is_ok())
            });
            made[kind] += usize::from(connected.await.unwrap().unwrap());
        }
    }
    made
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn first_connections_pass_while_answers_are_held() {
        let workdir = Workdir::new();
        let network = or_skip!(Network::new(workdir.path()).await);
        let upstream = Scripted::start_at(network.outside(), numbered).await;
        let hold = SocketAddr::new(network.outside(), free_port().port());
        let direct = format!("forward . {}", upstream.address);
        let held = forward(&[hold, upstream.address]);
        let flag = hold_flag(hold, upstream.address);
        let flags = [flag.as_str()];
        let (count, count_without) = or_long((25, 3), (250, 25));
        let (least, rounds) = or_long((75, 3), (97, 1));
        let domains = [(1, rounds * count), (0, count_without)].map(|(hold, count)| {
            let domains = (0..count).step_by(SHARING).map(move |it| domain(hold, it));
            domains.map(|it| format!("*.{it}"))
        });
        let wildcards: Vec<String> = domains.into_iter().flatten().collect();
        let wildcards: Vec<&str> = wildcards.iter().map(String::as_str).collect();
        let started =
            DatapathFixture::start_in(workdir, network, "", &wildcards, &held, &flags).await;
        let mut town = or_skip!(started);
        let listening = "egress_collector_hold_listening";
        town.collector.counts(listening, &[], 1.0).await;
        eventually("objects of the wildcards", async || {
            let objects = town.store.objects().len();
            (objects == wildcards.len())
                .then_some(())
                .ok_or_else(|| objects.to_string())
        })
        .await;
        town.settled().await;
        let mut with = [0; 4];
        // A machine that is busy with other tests is too slow for some, and not all the time.
        for round in 0..rounds {
            with = made(&town, 1, round * count..(round + 1) * count).await;
            if with.iter().sum::<usize>() * 100 >= 4 * count * least {
                break;
            }
        }
        town.restart_coredns(&direct).await;
        let without = made(&town, 0, 0..count_without).await;
        for (kind, (family, transport)) in KINDS.into_iter().enumerate() {
            println!(
                "{family} {transport}: {} of {count} at once with hold, {} of {count_without} without",
                with[kind], without[kind]
            );
        }
        let late = ["outcome=\"late\""];
        let late = town
            .collector
            .admin()
            .metric("egress_collector_hold_answers_total", &late);
        println!(
            "{} answers were sent before their status",
            late.await.unwrap()
        );
        let (with, without) = (with.iter().sum::<usize>(), without.iter().sum::<usize>());
        assert!(with * 100 >= 4 * count * least, "{with} of {}", 4 * count);
        assert!(without < with, "{without} without hold");
    }
}

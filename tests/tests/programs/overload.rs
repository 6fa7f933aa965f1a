//! Many senders, and senders over their limits: each is bounded, and the others are served as before.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use tests::{
    coredns::free_port,
    dnstap::{Control, DNSTAP, Sender, answer, control, data, event, response},
    programs::Program,
    soak::{judge, or_long},
    store::Store,
    wait::{PATIENCE, eventually, eventually_within},
    workdir::Workdir,
    world::start_collector,
};
use tokio::{task::JoinSet, time::Instant};

const FLOODED: &str = "www.example.com.";
const QUIET: &str = "quiet.example.com.";
const LOST: &str = "egress_collector_observations_lost_total";

async fn start(flags: &[&str]) -> (Workdir, Store, Program) {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    store.allow("team", &[FLOODED, QUIET]);
    let collector = start_collector(&workdir, &store, flags).await;
    collector.ready().await;
    (workdir, store, collector)
}

fn frame(name: &str, address: Ipv4Addr) -> Vec<u8> {
    data(&event(response(name, address)))
}

/// Waits until the quiet sender's address is known.
async fn arrives(store: &Store, address: Ipv4Addr) {
    let address = address.to_string();
    eventually(&format!("{address} is known"), async || {
        let entry = store.resolved(QUIET, QUIET).ok_or("there is no entry")?;
        let mut known = entry.resolved_addresses.iter();
        known
            .any(|known| known.ip == address)
            .then_some(())
            .ok_or_else(|| format!("{} others", entry.resolved_addresses.len()))
    })
    .await;
}

/// Sends frames as fast as the collector reads them, until it closes.
async fn flood(mut sender: Sender, frames: impl Iterator<Item = Vec<u8>>) {
    for frame in frames {
        if sender.send(&frame).await.is_err() {
            return;
        }
    }
}

async fn connect(listener: SocketAddr, last: u8) -> Sender {
    let mut sender = Sender::connect_from(IpAddr::from([127, 0, 0, last]), listener).await;
    sender.handshake().await;
    sender
}

/// The time from the connection to ACCEPT.
fn time_to_accept(listener: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(listener).unwrap();
    let ready = control(Control::Ready, Some(DNSTAP));
    stream.write_all(&ready).unwrap();
    let mut accept = vec![0; ready.len()];
    stream.read_exact(&mut accept).unwrap();
    assert_eq!(accept, control(Control::Accept, Some(DNSTAP)));
    began.elapsed()
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_flooding_client_starves_no_other_and_new_ones_are_accepted() {
        let listener = free_port();
        let flags = ["--listen", &format!("tcp://{listener}")];
        let (_workdir, store, collector) = start(&flags).await;
        let mut floods = JoinSet::new();
        for _ in 0..4 {
            let sender = connect(listener, 2).await;
            // Long frames, of which few fit.
            let addresses = (0..900).map(|i| Ipv4Addr::from_bits(0xc612_0000 + i).into());
            let addresses: Vec<IpAddr> = addresses.collect();
            let frame = data(&event(answer(FLOODED, &addresses, 300)));
            let many = std::iter::repeat_n(frame, 64).collect::<Vec<_>>().concat();
            floods.spawn(flood(sender, std::iter::repeat(many)));
        }
        collector
            .counts(LOST, &["reason=\"peer_share\""], 1.0)
            .await;
        let mut slowest = Duration::ZERO;
        for i in 0..or_long(5, 200_u32) {
            // A thread of its own, since the floods' runtime is busy.
            let accepted = tokio::task::spawn_blocking(move || time_to_accept(listener)).await;
            slowest = slowest.max(accepted.unwrap());
            let mut sender = connect(listener, 3).await;
            let address = Ipv4Addr::from_bits(0xcb00_7100 + i);
            sender.send(&frame(QUIET, address)).await.unwrap();
            arrives(&store, address).await;
        }
        judge("ACCEPT under a flood", slowest, Duration::from_secs(2));
        let lost = collector.admin().metric(LOST, &["reason=\"queue\""]).await;
        assert_eq!(lost.unwrap(), 0.0);
        assert!(floods.try_join_next().is_none(), "a flood has ended");
    }

    /// At most 64 MiB, and 256 KiB a connection, more than before, for any input.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whatever_is_sent_takes_bounded_memory() {
        const SENDERS: u32 = 32;
        let (workdir, _store, mut collector) = start(&[]).await;
        let socket = workdir.join("dnstap.sock");
        // Fills the names up to their limits.
        let mut sender = Sender::open(&socket).await;
        for i in 0..8 {
            let answer = answer(FLOODED, &many(0xc613_0000 + i * 900, 900), 300);
            sender.send(&data(&event(answer))).await.unwrap();
        }
        collector
            .counts("egress_collector_addresses", &[], 1000.0)
            .await;
        let [idle, _] = collector.process().memory();
        let mut floods = JoinSet::new();
        for number in 0..SENDERS {
            let sender = Sender::open(&socket).await;
            floods.spawn(flood(sender, everything(number, SENDERS)));
        }
        let names = or_long(20_000.0, 500_000.0);
        let labels = ["outcome=\"not_wanted\""];
        eventually_within(PATIENCE * 5, "all of it is read", async || {
            let metric = collector
                .admin()
                .metric("egress_collector_events_total", &labels);
            let read = metric.await.map_err(|error| error.to_string())?;
            (read >= names)
                .then_some(())
                .ok_or_else(|| read.to_string())
        })
        .await;
        let [_, most] = collector.process().memory();
        let allowed = (64 << 20) + u64::from(SENDERS) * (256 << 10);
        let more = most.saturating_sub(idle);
        println!(
            "{} MiB idle, {} MiB more at most, {} MiB allowed",
            idle >> 20,
            more >> 20,
            allowed >> 20
        );
        assert!(more < allowed, "{} MiB more", more >> 20);
    }
}

fn many(base: u32, count: u32) -> Vec<IpAddr> {
    let addresses = (0..count).map(|i| Ipv4Addr::from_bits(base + i).into());
    addresses.collect()
}

/// Answers with new addresses for a wanted name, many for unwanted names, and the largest possible frames. They are
/// prepared, so that the sender is not the bottleneck.
fn everything(number: u32, senders: u32) -> impl Iterator<Item = Vec<u8>> {
    let wanted: Vec<_> = (0..8)
        .map(|i| {
            data(&event(answer(
                FLOODED,
                &many(0xc613_0000 + i * 900, 900),
                300,
            )))
        })
        .collect();
    let name = format!("n00000000.{}.example.org.", "x".repeat(60));
    let other = data(&event(answer(&name, &many(0xc612_0000, 64), 300)));
    let digits = other.windows(8).position(|part| part == b"00000000");
    let digits = digits.expect("the name");
    let largest = data(&vec![0; 68 << 10]);
    (0_u32..).map(move |i| match i % 50 {
        0 => wanted[usize::try_from(i / 50).unwrap() % 8].clone(),
        1 => largest.clone(),
        _ => {
            let mut frame = other.clone();
            let number = format!("{:08}", (i * senders + number) % 100_000_000);
            frame[digits..digits + 8].copy_from_slice(number.as_bytes());
            frame
        }
    })
}

//! A query through the forwarder has the reply that its upstream gives, byte by byte.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use hickory_proto::{
    op::{Edns, Message, Query},
    rr::{Name, RecordType},
};
use tests::{coredns::write_zone, wait::eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::*;

/// Some servers say nothing to what they cannot read.
const SILENCE: Duration = Duration::from_millis(500);

const UPSTREAM: &str = ".:{$DNS_PORT} {
    bind 127.0.0.1
    errors
    file example.com.zone example.com
}
";

fn zone() -> String {
    let mut records =
        "www IN A 192.0.2.10\nwww IN AAAA 2001:db8::10\nalias IN CNAME www\n".to_owned();
    records += "mail IN MX 10 www\n_sip._tcp IN SRV 1 2 5060 www\nsvc IN HTTPS 1 . alpn=h2\n";
    for number in 0..60 {
        records += &format!("many IN TXT \"{number} {}\"\n", "x".repeat(40));
    }
    records
}

/// Queries of many kinds; each has the identifier of its place.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let types = [1, 2, 5, 6, 15, 16, 28, 33, 65, 255, 65_280].map(RecordType::from);
    let names = [
        "www",
        "WwW",
        "alias",
        "mail",
        "_sip._tcp",
        "svc",
        "many",
        "none",
    ];
    for kind in types {
        for name in names {
            let name = Name::from_ascii(format!("{name}.Example.com.")).unwrap();
            for size in [0, 512, 1232, 4096] {
                let mut query = Message::query();
                query.add_query(Query::query(name.clone(), kind));
                if size > 0 {
                    let mut edns = Edns::new();
                    edns.set_max_payload(size);
                    edns.set_dnssec_ok(size == 1232);
                    query.set_edns(edns);
                }
                query.metadata.recursion_desired = size != 512;
                query.metadata.checking_disabled = size == 4096;
                all.push(query.to_vec().unwrap());
            }
        }
    }
    let mut chaos = all[0].clone();
    let end = chaos.len() - 1;
    chaos[end] = 3;
    all.push(chaos);
    for (place, query) in all.iter_mut().enumerate() {
        query[..2].copy_from_slice(&u16::try_from(place).unwrap().to_be_bytes());
    }
    all
}

/// A query of the corpus with some octets changed or cut off, but never a response.
pub(super) fn mutated(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut query = random.choice(corpus).unwrap().clone();
    for _ in 0..random.usize(1..4) {
        let place = random.usize(2..query.len());
        query[place] = random.u8(..);
    }
    query.truncate(random.usize(query.len() / 2..query.len() + 1));
    query[2] &= 0x7f;
    query
}

async fn over_udp(server: SocketAddr, query: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(query).await.unwrap();
    let mut buffer = vec![0; 65_535];
    let length = timeout(SILENCE, socket.recv(&mut buffer))
        .await
        .ok()?
        .unwrap();
    buffer.truncate(length);
    Some(buffer)
}

pub(super) async fn are_equal(hold: SocketAddr, upstream: SocketAddr, query: &[u8]) {
    eventually("equal replies", async || {
        let (held, direct) = tokio::join!(over_udp(hold, query), over_udp(upstream, query));
        (held == direct)
            .then_some(())
            .ok_or_else(|| format!("{query:x?}:\n{held:x?}\n{direct:x?}"))
    })
    .await;
}

/// The replies to pipelined queries, by identifier.
async fn over_tcp(server: SocketAddr, queries: &[Vec<u8>]) -> BTreeMap<u16, Vec<u8>> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let sent = async {
        for query in queries {
            writer
                .write_u16(u16::try_from(query.len()).unwrap())
                .await
                .unwrap();
            writer.write_all(query).await.unwrap();
        }
    };
    let received = async {
        let mut replies = BTreeMap::new();
        while replies.len() < queries.len() {
            let length = reader.read_u16().await.unwrap();
            let mut reply = vec![0; length.into()];
            reader.read_exact(&mut reply).await.unwrap();
            replies.insert(u16::from_be_bytes([reply[0], reply[1]]), reply);
        }
        replies
    };
    tokio::join!(sent, received).1
}

/// A collector that forwards to a CoreDNS with a zone.
pub(super) async fn forwarder() -> (Workdir, CoreDns, Program, SocketAddr) {
    let workdir = Workdir::new();
    fs::write(workdir.join("Corefile"), UPSTREAM).unwrap();
    write_zone(
        &workdir.join("example.com.zone"),
        "example.com.",
        1,
        &zone(),
    );
    let upstream = CoreDns::start(workdir.path()).await;
    let store = Store::new(workdir.join("store"));
    let hold = free_port();
    let flag = hold_flag(hold, upstream.address());
    let collector = start_collector(&workdir, &store, &[&flag]).await;
    listens(&collector, true).await;
    (workdir, upstream, collector, hold)
}

#[tokio::test]
async fn replies_of_all_kinds_are_those_of_the_upstream() {
    let (_workdir, upstream, _collector, hold) = forwarder().await;
    let corpus = corpus();
    let mut truncated = 0;
    for query in &corpus {
        are_equal(hold, upstream.address(), query).await;
        let reply = over_udp(hold, query).await.unwrap();
        truncated += u32::from(reply[2] & 2 != 0);
    }
    assert!(truncated > 0, "no reply was cut off");
    let (held, direct) = (
        over_tcp(hold, &corpus),
        over_tcp(upstream.address(), &corpus),
    );
    let (held, direct) = tokio::join!(held, direct);
    assert_eq!(held.len(), corpus.len());
    for (id, reply) in direct {
        assert_eq!(held[&id], reply, "{id}");
    }
}

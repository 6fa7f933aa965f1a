//! DNS queries to a CoreDNS: as many as it answers, or a fixed number a second.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query},
    rr::RecordType,
};
use tests::{dns::ask, upstream::name};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// The queries that wait for an answer at the same time.
const WINDOW: usize = 64;

/// After this time without an answer all queries count as lost.
const LOST: Duration = Duration::from_millis(100);

/// The answers a second that a CoreDNS gives to [`WINDOW`] queries at a time for such names, over this time.
pub(crate) fn answers_a_second(server: SocketAddr, names: &[String], duration: Duration) -> f64 {
    let query = |text: &String| {
        let mut query = Message::query();
        query.metadata.recursion_desired = true;
        query.add_query(Query::query(name(text), RecordType::A));
        query.to_vec().unwrap()
    };
    let mut queries = names
        .iter()
        .map(query)
        .collect::<Vec<_>>()
        .into_iter()
        .cycle();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(LOST)).unwrap();
    let mut buffer = [0; 4096];
    let (began, mut answers, mut in_flight) = (Instant::now(), 0_u32, 0);
    while began.elapsed() < duration {
        while in_flight < WINDOW {
            socket.send(&queries.next().unwrap()).unwrap();
            in_flight += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(_) => {
                answers += 1;
                in_flight -= 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => in_flight = 0,
            Err(error) => panic!("{error}"),
        }
    }
    f64::from(answers) / began.elapsed().as_secs_f64()
}

/// An answer to a client.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) at: Instant,
    /// From the query on.
    pub(crate) latency: Duration,
    pub(crate) addresses: Vec<IpAddr>,
    /// When its TTL is over.
    pub(crate) until: Instant,
}

/// Asks random servers for random names, this many a second, until the time is over. Queries without an answer are left out.
pub(crate) async fn ask_steadily(
    servers: &[SocketAddr],
    names: &[String],
    a_second: u32,
    end: Instant,
) -> Vec<Answer> {
    let mut asking = JoinSet::new();
    let mut next = Instant::now();
    while next < end {
        sleep_until(next).await;
        next += Duration::from_secs(1) / a_second;
        let name = names[fastrand::usize(..names.len())].clone();
        let server = servers[fastrand::usize(..servers.len())];
        asking.spawn(async move {
            let asked = Instant::now();
            let reply = ask(server, &name, RecordType::A).await.ok()?;
            let ttl = reply
                .message
                .answers
                .iter()
                .map(|record| record.ttl)
                .min()?;
            Some(Answer {
                at: reply.at,
                latency: reply.at - asked,
                addresses: reply.addresses(),
                until: reply.at + Duration::from_secs(ttl.into()),
            })
        });
    }
    asking.join_all().await.into_iter().flatten().collect()
}

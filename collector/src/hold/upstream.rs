//! The servers that are asked, one after another. Each query has a socket of its own, whose port the kernel draws at random, and a
//! random identifier, so that an attacker who does not see the query cannot forge a reply.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream::FuturesUnordered};
use metrics::counter;
use proto::dns::{self, Query};
use socket2::{Domain, Socket, Type};
use tokio::{
    net::{TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use tokio_util::codec::Framed;

use super::{MAX, tcp::framing};
use crate::lookup::failure_of;

/// How long a server that says nothing is asked alone. CoreDNS waits 2 s for a reply.
const NEXT_AFTER: Duration = Duration::from_millis(900);

/// CoreDNS gives a query up after as long.
const LONGEST: Duration = Duration::from_secs(5);

thread_local! {
    /// A datagram is read here and then copied: a buffer for each query in flight would take much memory.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX].into());
}

/// How a query came, and is asked on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// The servers.
#[derive(Debug)]
pub(super) struct Upstreams {
    servers: Vec<SocketAddr>,
    /// The one that replied last is asked first: each query would wait for one that is gone.
    first: AtomicUsize,
}

impl Upstreams {
    pub(super) fn new(servers: Vec<SocketAddr>) -> Self {
        let first = AtomicUsize::new(0);
        Self { servers, first }
    }

    /// The first reply, with the upstream's identifier. `None` if no server replies.
    pub(super) async fn ask(&self, query: &Query, transport: Transport) -> Option<Vec<u8>> {
        let asked = timeout(LONGEST, self.ask_in_turn(query, transport)).await;
        asked.unwrap_or_else(|_elapsed| {
            self.count_failure(self.first.load(Ordering::Relaxed));
            None
        })
    }

    async fn ask_in_turn(&self, query: &Query, transport: Transport) -> Option<Vec<u8>> {
        let first = self.first.load(Ordering::Relaxed);
        let servers = self.servers.iter().enumerate().cycle().skip(first);
        let mut servers = servers.take(self.servers.len()).peekable();
        let (mut asked, mut latest, mut refusal) = (FuturesUnordered::new(), first, None);
        loop {
            match servers.next() {
                Some((index, server)) => {
                    latest = index;
                    asked.push(async move { (index, ask(*server, query, transport).await) });
                }
                None if asked.is_empty() => return refusal,
                None => {}
            }
            tokio::select! {
                Some((index, reply)) = asked.next() => match reply {
                    // Another server may take the query.
                    Ok(reply) if is_refusal(&reply) => {
                        self.count_failure(index);
                        refusal = Some(reply);
                    }
                    Ok(reply) => {
                        self.first.store(index, Ordering::Relaxed);
                        return Some(reply);
                    }
                    Err(_) => self.count_failure(index),
                },
                () = sleep(NEXT_AFTER), if servers.peek().is_some() => self.count_failure(latest),
            }
        }
    }

    fn count_failure(&self, index: usize) {
        if let Some(server) = self.servers.get(index) {
            counter!("egress_collector_hold_upstream_failures_total", "upstream" => server.to_string())
                .increment(1);
        }
    }
}

fn is_refusal(reply: &[u8]) -> bool {
    dns::Header::parse(reply).is_ok_and(|it| it.rcode() == dns::RCODE_REFUSED)
}

async fn ask(server: SocketAddr, query: &Query, transport: Transport) -> io::Result<Vec<u8>> {
    // A generator for secrets, with a seed of the system's.
    let id = rand::random();
    let message = query.with_id(id);
    let is_reply = |message: &[u8]| query.is_answered_by(id, message);
    match transport {
        Transport::Udp => ask_udp(server, &message, is_reply).await,
        Transport::Tcp => ask_tcp(server, message, is_reply).await,
    }
}

async fn ask_udp(
    server: SocketAddr,
    message: &[u8],
    is_reply: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(server), kind, None)?;
    // The kernel draws a port, drops datagrams of others, and reports a closed port.
    socket.connect(&server.into())?;
    let socket = UdpSocket::from_std(socket.into())?;
    socket.send(message).await?;
    loop {
        tokio::select! {
            ready = socket.readable() => ready?,
            error = failure_of(&socket) => return Err(error),
        }
        let received = BUFFER.with_borrow_mut(|buffer| {
            let length = socket.try_recv(buffer)?;
            let message = buffer.get(..length).unwrap_or_default();
            io::Result::Ok(is_reply(message).then(|| message.to_vec()))
        });
        match received {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn ask_tcp(
    server: SocketAddr,
    message: Vec<u8>,
    is_reply: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let mut stream = Framed::new(stream, framing());
    stream.send(Bytes::from(message)).await?;
    while let Some(message) = stream.next().await {
        let message = message?;
        if is_reply(&message) {
            return Ok(message.to_vec());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

//! A DNS server that does what a test says, over UDP and TCP on one port.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
};

use super::Server;

/// A query that came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) message: Message,
    pub(super) tcp: bool,
    pub(super) from: SocketAddr,
}

impl Asked {
    pub(super) fn query(&self) -> &Query {
        &self.message.queries[0]
    }

    pub(super) fn name(&self) -> String {
        self.query().name.to_ascii()
    }

    pub(super) fn is_v6(&self) -> bool {
        self.query().query_type == RecordType::AAAA
    }

    /// A reply with this response code and nothing in it.
    pub(super) fn reply(&self, code: ResponseCode) -> Message {
        let mut reply = Message::new(self.message.id, MessageType::Response, OpCode::Query);
        reply.metadata.response_code = code;
        reply.metadata.recursion_available = true;
        reply.add_query(self.query().clone());
        reply.set_edns(Edns::new());
        reply
    }

    /// The addresses of the question's family, with one TTL.
    pub(super) fn addresses(&self, addresses: &[&str], ttl: u32) -> Message {
        let mut reply = self.reply(ResponseCode::NoError);
        for address in addresses {
            let data = address_data(address);
            if data.record_type() == self.query().query_type {
                let owner = self.query().name.clone();
                reply.add_answer(Record::from_rdata(owner, ttl, data));
            }
        }
        reply
    }
}

pub(super) fn address_data(address: &str) -> RData {
    match address.parse().unwrap() {
        std::net::IpAddr::V4(address) => RData::A(rdata::A(address)),
        std::net::IpAddr::V6(address) => RData::AAAA(rdata::AAAA(address)),
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// What the server sends.
pub(super) enum Say {
    Reply(Message),
    Octets(Vec<u8>),
    /// From a socket that was not asked.
    FromElsewhere(Message),
}

/// A message that is all that the server sends.
pub(super) trait Speech {
    fn say(self) -> Vec<Say>;
}

impl Speech for Message {
    fn say(self) -> Vec<Say> {
        vec![Say::Reply(self)]
    }
}

type Script = dyn Fn(&Asked) -> Vec<Say> + Send + Sync;

struct Shared {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    /// Closed, it keeps the replies back.
    gate: Semaphore,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    connections: AtomicUsize,
    /// How many queries a connection may bring before it is closed.
    per_connection: usize,
}

/// It runs until it is dropped.
pub(super) struct Scripted {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Scripted {
    pub(super) async fn start(script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static) -> Self {
        Self::with(script, Semaphore::MAX_PERMITS, usize::MAX, true).await
    }

    /// Replies wait for [`Self::open`].
    pub(super) async fn gated(script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static) -> Self {
        Self::with(script, 0, usize::MAX, true).await
    }

    pub(super) async fn without_tcp(
        script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static,
    ) -> Self {
        Self::with(script, Semaphore::MAX_PERMITS, usize::MAX, false).await
    }

    pub(super) async fn with(
        script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static,
        permits: usize,
        per_connection: usize,
        tcp: bool,
    ) -> Self {
        let (udp, listener) = bind().await;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::default(),
            gate: Semaphore::new(permits),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            per_connection,
        });
        let address = udp.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(Arc::new(udp), Arc::clone(&shared)));
        if tcp {
            tasks.spawn(serve_tcp(listener, Arc::clone(&shared)));
        }
        Self {
            address,
            shared,
            _tasks: tasks,
        }
    }

    pub(super) fn server(&self) -> Server {
        Server::udp(self.address)
    }

    pub(super) fn tcp_server(&self) -> Server {
        Server {
            address: self.address,
            tcp_only: true,
        }
    }

    pub(super) fn open(&self) {
        self.shared.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    pub(super) fn most_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::SeqCst)
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

/// Both on one port.
async fn bind() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        match TcpListener::bind(udp.local_addr().unwrap()).await {
            Ok(listener) => return (udp, listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => panic!("{error}"),
        }
    }
}

impl Shared {
    async fn say(&self, octets: &[u8], tcp: bool, from: SocketAddr) -> Vec<Say> {
        let message = Message::from_vec(octets).unwrap();
        let asked = Asked { message, tcp, from };
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        self.asked.lock().unwrap().push(asked.clone());
        drop(self.gate.acquire().await);
        let say = (self.script)(&asked);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        say
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut replies = JoinSet::new();
    let mut buffer = vec![0; 65_536];
    loop {
        while replies.try_join_next().is_some() {}
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let octets = buffer[..length].to_vec();
        let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
        replies.spawn(async move {
            for say in shared.say(&octets, false, from).await {
                // Whoever asked may be gone.
                let _ = match say {
                    Say::Reply(message) => socket.send_to(&message.to_vec().unwrap(), from).await,
                    Say::Octets(octets) => socket.send_to(&octets, from).await,
                    Say::FromElsewhere(message) => {
                        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                        stranger.send_to(&message.to_vec().unwrap(), from).await
                    }
                };
            }
        });
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, from) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve_connection(stream, from, Arc::clone(&shared)));
    }
}

async fn serve_connection(
    stream: TcpStream,
    from: SocketAddr,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let (mut reader, writer) = stream.into_split();
    let writer = Arc::new(tokio::sync::Mutex::new(writer));
    let mut replies = JoinSet::new();
    for _ in 0..shared.per_connection {
        let length = reader.read_u16().await?;
        let mut octets = vec![0; length.into()];
        reader.read_exact(&mut octets).await?;
        let (writer, shared) = (Arc::clone(&writer), Arc::clone(&shared));
        replies.spawn(async move {
            for say in shared.say(&octets, true, from).await {
                let octets = match say {
                    Say::Reply(message) | Say::FromElsewhere(message) => message.to_vec().unwrap(),
                    Say::Octets(octets) => octets,
                };
                let mut writer = writer.lock().await;
                writer.write_u16(octets.len() as u16).await?;
                writer.write_all(&octets).await?;
            }
            io::Result::Ok(())
        });
    }
    while replies.join_next().await.is_some() {}
    Ok(())
}

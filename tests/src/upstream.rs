//! A scripted DNS server, over UDP and TCP on one port: the upstream of a CoreDNS, or a server for the collector's own
//! look-ups.
//!
//! The script is a closure from a query to the data to send, correct or faulty. The first queries are recorded, with
//! their transport.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
};

/// As many queries are recorded: more than any test asks for, but those that ask for an hour.
const RECORDED: usize = 100_000;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Clone, Debug)]
pub struct Asked {
    pub message: Message,
    /// Whether it came over TCP.
    pub tcp: bool,
    /// The client's address.
    pub from: SocketAddr,
}

impl Asked {
    pub fn query(&self) -> &Query {
        &self.message.queries[0]
    }

    /// The name of the question, with its final dot, in the case of the query.
    pub fn name(&self) -> String {
        self.query().name.to_ascii()
    }

    /// Whether the question is for A; the class is always IN.
    pub fn is_v4(&self) -> bool {
        self.query().query_type == RecordType::A
    }

    /// Whether the question is for AAAA.
    pub fn is_v6(&self) -> bool {
        self.query().query_type == RecordType::AAAA
    }

    /// An empty reply with this response code.
    pub fn reply(&self, code: ResponseCode) -> Message {
        let mut reply = Message::new(self.message.id, MessageType::Response, OpCode::Query);
        reply.metadata.response_code = code;
        reply.metadata.recursion_available = true;
        reply.add_query(self.query().clone());
        reply.set_edns(Edns::new());
        reply
    }

    /// A reply with the addresses of the question's family, with one TTL in seconds.
    pub fn addresses(&self, addresses: &[&str], ttl: u32) -> Message {
        let parsed: Vec<IpAddr> = addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        self.ips(&parsed, ttl)
    }

    /// [`Asked::addresses`] for parsed addresses.
    pub fn ips(&self, addresses: &[IpAddr], ttl: u32) -> Message {
        let mut reply = self.reply(ResponseCode::NoError);
        for address in addresses {
            let data = data(*address);
            if data.record_type() == self.query().query_type {
                let owner = self.query().name.clone();
                reply.add_answer(Record::from_rdata(owner, ttl, data));
            }
        }
        reply
    }
}

/// The data of a record: A or AAAA.
pub fn data(address: IpAddr) -> RData {
    match address {
        IpAddr::V4(address) => RData::A(rdata::A(address)),
        IpAddr::V6(address) => RData::AAAA(rdata::AAAA(address)),
    }
}

pub fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a DNS name")
}

/// The data that the server sends.
#[derive(Debug)]
pub enum Say {
    Reply(Message),
    Octets(Vec<u8>),
    /// A message from another socket than the queried one; not for TCP.
    FromElsewhere(Message),
}

/// Converts a single message to the server's output.
pub trait Speech {
    /// Unchanged.
    fn say(self) -> Vec<Say>;

    /// With the flag TC, and the same content.
    fn say_truncated(self) -> Vec<Say>;
}

impl Speech for Message {
    fn say(self) -> Vec<Say> {
        vec![Say::Reply(self)]
    }

    fn say_truncated(mut self) -> Vec<Say> {
        self.metadata.truncation = true;
        self.say()
    }
}

type Script = dyn Fn(&Asked) -> Vec<Say> + Send + Sync;

struct Shared {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
}

/// It runs until it is dropped.
pub struct Scripted {
    /// Its address, for UDP and TCP.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Scripted {
    /// Starts a server on a free port of 127.0.0.1. A script that returns nothing makes it a black hole.
    pub async fn start(script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static) -> Self {
        Self::start_at(LOCALHOST, script).await
    }

    /// [`Scripted::start`] on another address of this machine.
    pub async fn start_at(
        host: IpAddr,
        script: impl Fn(&Asked) -> Vec<Say> + Send + Sync + 'static,
    ) -> Self {
        let (udp, listener) = bind(host).await;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::default(),
        });
        let address = udp.local_addr().expect("its address");
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(Arc::new(udp), Arc::clone(&shared)));
        tasks.spawn(serve_tcp(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            _tasks: tasks,
        }
    }

    /// The queries so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().expect("no panic under it").clone()
    }

    /// The number of matching queries so far.
    pub fn count(&self, counts: impl Fn(&Asked) -> bool) -> usize {
        let asked = self.shared.asked.lock().expect("no panic under it");
        asked.iter().filter(|asked| counts(asked)).count()
    }
}

/// Gives a socket of a test room for what comes while the test is not running. The system may allow less.
pub fn take_bursts(socket: &UdpSocket) {
    let socket = socket2::SockRef::from(socket);
    socket.set_recv_buffer_size(4 << 20).expect("its socket");
}

async fn bind(host: IpAddr) -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind((host, 0)).await.expect("a UDP port");
        take_bursts(&udp);
        match TcpListener::bind(udp.local_addr().expect("its address")).await {
            Ok(listener) => return (udp, listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => panic!("{error}"),
        }
    }
}

impl Shared {
    fn say(&self, octets: &[u8], tcp: bool, from: SocketAddr) -> Vec<Say> {
        let message = Message::from_vec(octets).expect("a query");
        let asked = Asked { message, tcp, from };
        let mut all = self.asked.lock().expect("no panic under it");
        if all.len() < RECORDED {
            all.push(asked.clone());
        }
        drop(all);
        (self.script)(&asked)
    }
}

fn encode(message: &Message) -> Vec<u8> {
    message.to_vec().expect("a message")
}

async fn serve_udp(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut replies = JoinSet::new();
    let mut buffer = vec![0; 65_536];
    loop {
        while replies.try_join_next().is_some() {}
        let (length, from) = socket.recv_from(&mut buffer).await.expect("a datagram");
        let octets = buffer[..length].to_vec();
        let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
        replies.spawn(async move {
            for say in shared.say(&octets, false, from) {
                // The client may be gone.
                let _ = match say {
                    Say::Reply(message) => socket.send_to(&encode(&message), from).await,
                    Say::Octets(octets) => socket.send_to(&octets, from).await,
                    Say::FromElsewhere(message) => {
                        let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
                        stranger.send_to(&encode(&message), from).await
                    }
                };
            }
        });
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, from) = listener.accept().await.expect("a connection");
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
    loop {
        let length = reader.read_u16().await?;
        let mut octets = vec![0; length.into()];
        reader.read_exact(&mut octets).await?;
        let (writer, shared) = (Arc::clone(&writer), Arc::clone(&shared));
        replies.spawn(async move {
            for say in shared.say(&octets, true, from) {
                let octets = match say {
                    Say::Reply(message) | Say::FromElsewhere(message) => encode(&message),
                    Say::Octets(octets) => octets,
                };
                let mut writer = writer.lock().await;
                let length = u16::try_from(octets.len()).expect("at most 65,535 octets");
                writer.write_u16(length).await?;
                writer.write_all(&octets).await?;
            }
            io::Result::Ok(())
        });
    }
}

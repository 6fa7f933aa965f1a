//! A dnstap sender for correct and faulty streams.
//!
//! It assembles frames by hand, so that the collector's reader is not tested with its own code.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{Name, Record, RecordType},
};
use prost::Message as _;
use proto::dnstap::pb;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use crate::upstream::data as data_of;

pub const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";

#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Control {
    /// The reader accepts the content type.
    Accept = 1,
    /// The writer starts.
    Start = 2,
    /// The writer has no more data.
    Stop = 3,
    /// The writer offers a content type.
    Ready = 4,
    /// The reader has read everything.
    Finish = 5,
}

/// A control frame, with a content type or without.
pub fn control(kind: Control, content_type: Option<&[u8]>) -> Vec<u8> {
    let mut payload = (kind as u32).to_be_bytes().to_vec();
    if let Some(content_type) = content_type {
        payload.extend(1_u32.to_be_bytes());
        payload.extend(length(content_type));
        payload.extend(content_type);
    }
    [&[0; 4], &length(&payload)[..], &payload].concat()
}

pub fn data(payload: &[u8]) -> Vec<u8> {
    [&length(payload)[..], payload].concat()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len())
        .expect("a short frame")
        .to_be_bytes()
}

/// A CLIENT_RESPONSE event with a DNS message to this client.
pub fn event_for(client: Ipv4Addr, response: Vec<u8>) -> Vec<u8> {
    let event = pb::Dnstap {
        r#type: pb::dnstap::Type::Message as i32,
        message: Some(pb::Message {
            r#type: pb::message::Type::ClientResponse as i32,
            response_message: Some(response),
            query_address: Some(client.octets().to_vec()),
            ..pb::Message::default()
        }),
        ..pb::Dnstap::default()
    };
    event.encode_to_vec()
}

/// The DNS answer to the question for `name` in the family of the first address, with a TTL in seconds.
pub fn answer(name: &str, addresses: &[IpAddr], ttl: u32) -> Vec<u8> {
    let name = Name::from_ascii(name).expect("a DNS name");
    let kind = match addresses.first() {
        Some(IpAddr::V6(_)) => RecordType::AAAA,
        _ => RecordType::A,
    };
    let mut message = Message::new(1, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(name.clone(), kind));
    for address in addresses {
        message.add_answer(Record::from_rdata(name.clone(), ttl, data_of(*address)));
    }
    message.to_vec().expect("a message")
}

/// A connection to the collector's socket.
#[derive(Debug)]
pub struct Sender(UnixStream);

impl Sender {
    /// Connects and does the handshake up to START.
    pub async fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).await;
        let mut sender = Self(stream.expect("the collector listens"));
        let ready = control(Control::Ready, Some(DNSTAP));
        sender.send(&ready).await.expect("READY is taken");
        let mut accept = vec![0; control(Control::Accept, Some(DNSTAP)).len()];
        let answer = sender.0.read_exact(&mut accept).await;
        answer.expect("an answer to READY");
        assert_eq!(accept, control(Control::Accept, Some(DNSTAP)));
        let start = control(Control::Start, Some(DNSTAP));
        sender.send(&start).await.expect("START is taken");
        sender
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The collector has closed the connection.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}

//! Events as the CoreDNS of a cluster sends them, the same in every run.
//!
//! Of them, 70 % are NXDOMAIN, and 5 % match one of the wanted names, of which a tenth are
//! wildcards. The rest are queries, FORWARDER_RESPONSE, and answers for other names.

use bytes::{BufMut, BytesMut};
use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use prost::Message as _;
use proto::{
    api::DnsName,
    dnstap::{CONTENT_TYPE, pb},
    frame_stream::{Control, ControlKind, Limits, Step, StreamReader},
};

/// A small generator (xorshift): the same frames in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// So many names, a tenth of them wildcards.
pub fn wanted(names: u64) -> Vec<DnsName> {
    let wildcards = names / 10;
    let regular = (0..names - wildcards).map(|i| format!("host{i}.team{}.example.com", i % 100));
    let wildcards = (0..wildcards).map(|i| format!("*.zone{i}.example.net"));
    regular
        .chain(wildcards)
        .map(|name| DnsName::parse(&name).unwrap())
        .collect()
}

fn frame(random: &mut Random, names: u64, matching: &mut u64) -> Vec<u8> {
    let wildcards = names / 10;
    let draw = random.below(100);
    let matches = draw < 5;
    let number = random.below(names);
    let other = random.below(10_000);
    let asked = if matches && number < wildcards {
        format!("pod{}.zone{number}.example.net.", random.below(100))
    } else if matches {
        format!(
            "host{0}.team{1}.example.com.",
            number - wildcards,
            (number - wildcards) % 100
        )
    } else if draw < 75 {
        format!(
            "www{other}.example.org.team{}.svc.cluster.local.",
            other % 100
        )
    } else {
        format!("www{other}.example.org.")
    };
    let (kind, code) = match draw {
        0..5 => (pb::message::Type::ClientResponse, ResponseCode::NoError),
        5..75 => (pb::message::Type::ClientResponse, ResponseCode::NXDomain),
        75..85 => (pb::message::Type::ClientQuery, ResponseCode::NoError),
        85..90 => (pb::message::Type::ForwarderResponse, ResponseCode::NoError),
        _ => (pb::message::Type::ClientResponse, ResponseCode::NoError),
    };
    *matching += u64::from(matches);
    let name = Name::from_ascii(&asked).unwrap();
    let mut message = Message::new(
        random.below(65_536) as u16,
        MessageType::Response,
        OpCode::Query,
    );
    message.metadata.response_code = code;
    message.add_query(Query::query(name.clone(), RecordType::A));
    if code == ResponseCode::NoError {
        // A name has the same addresses each time.
        let of_name = if matches { number } else { other };
        for i in 1..=2 {
            let address = rdata::A::new(93, 184, (of_name % 250) as u8, i);
            message.add_answer(Record::from_rdata(name.clone(), 30, RData::A(address)));
        }
    }
    let dns = message.to_vec().unwrap();
    let is_query = kind == pb::message::Type::ClientQuery;
    let event = pb::Message {
        r#type: kind as i32,
        socket_family: Some(1),
        socket_protocol: Some(1),
        query_address: Some(vec![
            10,
            128,
            random.below(250) as u8,
            random.below(250) as u8,
        ]),
        query_port: Some(40_000),
        query_time_sec: Some(1_800_000_000),
        query_time_nsec: Some(1),
        response_time_sec: (!is_query).then_some(1_800_000_000),
        response_time_nsec: (!is_query).then_some(2),
        query_message: is_query.then(|| dns.clone()),
        response_message: (!is_query).then_some(dns),
        ..pb::Message::default()
    };
    let dnstap = pb::Dnstap {
        r#type: 1,
        identity: Some(b"coredns-7db6d8ff4d-abcde".to_vec()),
        version: Some(b"CoreDNS-1.15.0".to_vec()),
        message: Some(event),
        ..pb::Dnstap::default()
    };
    dnstap.encode_to_vec()
}

/// START and so many events as one stream, and the number that match one of so many [`wanted`]
/// names.
pub fn stream(events: usize, names: u64) -> (BytesMut, u64) {
    let (mut random, mut matching) = (Random(0x2545_f491_4f6c_dd1d), 0);
    let mut stream = BytesMut::new();
    let start = Control::with_content_type(ControlKind::Start, CONTENT_TYPE.into());
    start.encode(&mut stream);
    for _ in 0..events {
        let frame = frame(&mut random, names, &mut matching);
        stream.put_u32(u32::try_from(frame.len()).unwrap());
        stream.put_slice(&frame);
    }
    (stream, matching)
}

/// Gives `take` the payload of each data frame.
pub fn each_frame<'a>(stream: &'a [u8], mut take: impl FnMut(&'a [u8])) {
    let mut reader = StreamReader::new(CONTENT_TYPE, Limits::default());
    let mut rest = stream;
    while !rest.is_empty() {
        while let Some((payload, behind)) = reader.data(rest) {
            take(payload);
            rest = behind;
        }
        if let Step::Control { consumed, .. } = reader.step(rest).unwrap() {
            rest = &rest[consumed..];
        }
    }
}

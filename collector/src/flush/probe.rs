//! The probe: a DNS query that overflows a DNS server's dnstap buffer, and that can be recognized
//! in the stream.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hickory_net::proto::{
    op::{Edns, Message, MessageType, OpCode, Query},
    rr::{
        Name, RecordType,
        rdata::opt::{EdnsCode, EdnsOption},
    },
};
use prost::Message as _;
use proto::{
    api::DnsName,
    dns,
    dnstap::{address, pb},
};

/// The octets of padding (RFC 7830) in a probe: with the rest of the event, more than CoreDNS's
/// buffer of 4,096.
pub const PADDING: usize = 4_100;

/// The length up to which a frame cannot hold a probe.
pub const LONGEST_OTHER: usize = PADDING;

/// The datagram size in the EDNS record, which is required but has no effect over TCP.
const PAYLOAD: u16 = 1232;

/// The start of a probe's padding.
const MAGIC: [u8; 8] = *b"egrflush";

const HEADER: usize = 12;

/// The largest position of the padding: after the header, the question and the fixed part of the
/// EDNS record.
const FURTHEST: usize = HEADER + 255 + 4 + 11 + 4;

/// Identifies a probe by 122 random bits, which no other host can guess.
pub type Nonce = [u8; 16];

pub fn nonce() -> Nonce {
    uuid::Uuid::new_v4().into_bytes()
}

/// The content of the padding: the server that was probed, and the probe's identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProbeMark {
    pub server: SocketAddr,
    pub nonce: Nonce,
}

impl ProbeMark {
    const LEN: usize = MAGIC.len() + 16 + 2 + 16;

    fn bytes(&self) -> [u8; Self::LEN] {
        let address = match self.server.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut bytes = [0; Self::LEN];
        let parts = MAGIC
            .into_iter()
            .chain(address.octets())
            .chain(self.server.port().to_be_bytes())
            .chain(self.nonce);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (address, rest) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let address = IpAddr::V6(Ipv6Addr::from(*address)).to_canonical();
        Some(Self {
            server: SocketAddr::new(address, u16::from_be_bytes(*port)),
            nonce: *rest.first_chunk()?,
        })
    }
}

/// The queries for one name.
#[derive(Clone, Debug)]
pub struct Template {
    name: DnsName,
    wire: dns::Name,
    message: Vec<u8>,
}

impl Template {
    /// For a name that DNS servers answer by themselves. `None` if it cannot be queried, as a
    /// wildcard.
    ///
    /// The query is of type A, since plugins such as `hosts` support little else. It does not ask
    /// for recursion, which limits the load if the server forwards it after all.
    pub fn new(name: &DnsName) -> Option<Self> {
        if name.is_wildcard() {
            return None;
        }
        let written = Name::from_ascii(name.as_str()).ok()?;
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD);
        let padding = EdnsOption::Unknown(EdnsCode::Padding.into(), vec![0; PADDING]);
        edns.options_mut().insert(padding);
        let mut message = Message::new(0, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(written, RecordType::A));
        message.set_edns(edns);
        Some(Self {
            name: name.clone(),
            wire: name.into(),
            message: message.to_vec().ok()?,
        })
    }

    pub fn name(&self) -> &DnsName {
        &self.name
    }

    /// Appends the query as sent over TCP: its length (RFC 1035 section 4.2.2), then the message.
    pub fn write(&self, id: u16, mark: &ProbeMark, out: &mut Vec<u8>) {
        let length = u16::try_from(self.message.len()).unwrap_or(u16::MAX);
        out.extend(length.to_be_bytes());
        let (id, mark) = (id.to_be_bytes(), mark.bytes());
        let rest = self.message.get(id.len()..).unwrap_or_default();
        // The padding is the end of the message.
        let (front, padding) = rest.split_at(rest.len().saturating_sub(PADDING));
        out.extend(id);
        out.extend(front);
        out.extend(mark);
        out.extend(padding.get(mark.len()..).unwrap_or_default());
    }

    /// Whether a probe in a stream is for this name.
    pub fn is_of(&self, sight: &Sight) -> bool {
        sight.question.starts_with(self.wire.wire())
    }
}

/// A probe as it is seen in a dnstap stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sight {
    /// The mark in its padding, which may be forged.
    pub mark: ProbeMark,
    /// The event shows that the DNS server forwarded it.
    pub is_forwarded: bool,
    /// The source address of the query.
    pub source: Option<IpAddr>,
    /// The event's `extra`.
    pub extra: Vec<u8>,
    question: Vec<u8>,
}

impl Sight {
    /// Looks for a probe in the payload of a data frame: a query that the server received or
    /// forwarded.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let event = pb::Dnstap::decode(frame).ok()?;
        let extra = event.extra.unwrap_or_default();
        let event = event.message?;
        let is_forwarded = match event.r#type() {
            pb::message::Type::ClientQuery => false,
            pb::message::Type::ForwarderQuery => true,
            _ => return None,
        };
        let message = event.query_message?;
        let front = message.get(..message.len().min(FURTHEST + ProbeMark::LEN))?;
        let at = front.windows(MAGIC.len()).position(|part| part == MAGIC)?;
        let source = event.query_address.as_deref().and_then(address);
        Some(Self {
            mark: ProbeMark::read(message.get(at..)?)?,
            is_forwarded,
            source: source.map(|address| address.to_canonical()),
            extra,
            question: message.get(HEADER..)?.to_vec(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hickory_net::proto::op::Message;
    use proptest::prelude::*;
    use prost::Message as _;
    use proto::dnstap::pb;

    use super::*;

    pub(crate) fn template(name: &str) -> Template {
        Template::new(&DnsName::parse(name).unwrap()).unwrap()
    }

    /// The event of a server that received the query, with this `extra`.
    pub(crate) fn frame(kind: pb::message::Type, query: &[u8], extra: &str) -> Vec<u8> {
        let message = pb::Message {
            r#type: kind as i32,
            query_address: Some(vec![10, 0, 0, 7]),
            query_message: Some(query.to_vec()),
            ..pb::Message::default()
        };
        let event = pb::Dnstap {
            r#type: pb::dnstap::Type::Message as i32,
            extra: Some(extra.as_bytes().to_vec()),
            message: Some(message),
            ..pb::Dnstap::default()
        };
        event.encode_to_vec()
    }

    fn mark() -> ProbeMark {
        ProbeMark {
            server: "10.0.0.1:5353".parse().unwrap(),
            nonce: nonce(),
        }
    }

    #[test]
    fn a_probe_is_a_query_with_its_mark_in_the_padding() {
        let mut sent = Vec::new();
        template("flush.cluster.local").write(0x0102, &mark(), &mut sent);
        let (length, query) = sent.split_first_chunk().unwrap();
        assert_eq!(usize::from(u16::from_be_bytes(*length)), query.len());
        let message = Message::from_vec(query).unwrap();
        assert_eq!(message.metadata.id, 0x0102);
        assert_eq!(message.queries[0].name.to_ascii(), "flush.cluster.local.");
        let options = message.edns.as_ref().unwrap().options();
        let padding = Vec::<u8>::try_from(options.get(EdnsCode::Padding).unwrap()).unwrap();
        assert_eq!(padding.len(), PADDING);
        assert!(padding.starts_with(&MAGIC));
    }

    #[test]
    fn a_probe_is_known_again_by_its_name_and_mark() {
        let mark = mark();
        let mut sent = Vec::new();
        let longest = format!("{}.{}", ["a"; 94].join("."), "b".repeat(63));
        for name in ["flush.cluster.local", &longest] {
            sent.clear();
            template(name).write(7, &mark, &mut sent);
            for (kind, is_forwarded) in [
                (pb::message::Type::ClientQuery, false),
                (pb::message::Type::ForwarderQuery, true),
            ] {
                let frame = frame(kind, &sent[2..], "secret");
                assert!(frame.len() > LONGEST_OTHER);
                let sight = Sight::read(&frame).unwrap();
                assert_eq!((sight.mark, sight.is_forwarded), (mark, is_forwarded));
                assert_eq!(sight.source, "10.0.0.7".parse().ok());
                assert_eq!(sight.extra, b"secret");
                assert!(template(name).is_of(&sight));
                assert!(!template("other.cluster.local").is_of(&sight));
            }
            let response = frame(pb::message::Type::ClientResponse, &sent[2..], "");
            assert_eq!(Sight::read(&response), None);
        }
    }

    #[test]
    fn a_wildcard_cannot_be_asked_for() {
        assert!(Template::new(&DnsName::parse("*.cluster.local").unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn whatever_a_frame_holds_it_can_be_looked_at(query: Vec<u8>, cut in 0_usize..200, at in 0_usize..200) {
            let mut sent = Vec::new();
            template("flush.cluster.local").write(7, &mark(), &mut sent);
            let mut message = sent[2..].to_vec();
            message.drain(at..(at + cut));
            message.splice(at..at, query.iter().copied());
            let _ = Sight::read(&frame(pb::message::Type::ClientQuery, &message, ""));
            let _ = Sight::read(&frame(pb::message::Type::ClientQuery, &query, ""));
            let _ = Sight::read(&query);
        }
    }
}

//! The probe: a DNS query that overflows a DNS server's dnstap buffer, and that can be recognized
//! in the stream, and the reports of the readers that it came back.

use hickory_net::proto::{
    op::{Edns, Message, MessageType, OpCode, Query},
    rr::{
        Name, RecordType,
        rdata::opt::{EdnsCode, EdnsOption},
    },
};
use metrics::counter;
use prost::Message as _;
use proto::{api::DnsName, dnstap::pb};
use tokio::{sync::mpsc, time::Instant};

/// The octets of padding (RFC 7830) in a probe: with the rest of the event, more than CoreDNS's
/// buffer of 4,096.
const PADDING: usize = 4_100;

/// The length up to which a frame cannot hold a probe.
const LONGEST_OTHER: usize = PADDING;

/// The datagram size in the EDNS record, which is required but has no effect over TCP.
const PAYLOAD: u16 = 1232;

/// The start of a probe's padding.
const MAGIC: [u8; 8] = *b"egrflush";

const HEADER: usize = 12;

/// The largest position of the padding: after the header, the question and the fixed part of the
/// EDNS record.
const FURTHEST: usize = HEADER + 255 + 4 + 11 + 4;

/// Identifies a probe by 128 random bits, which no other host can guess.
pub type Nonce = [u8; 16];

pub fn nonce() -> Nonce {
    rand::random()
}

/// The start of the padding: what makes it a probe, and which one.
const MARK: usize = MAGIC.len() + size_of::<Nonce>();

/// The queries for one name.
#[derive(Clone, Debug)]
pub struct Template {
    name: DnsName,
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
            message: message.to_vec().ok()?,
        })
    }

    pub fn name(&self) -> &DnsName {
        &self.name
    }

    /// Appends the query as sent over TCP: its length (RFC 1035 section 4.2.2), then the message.
    pub fn write(&self, id: u16, nonce: &Nonce, out: &mut Vec<u8>) {
        let length = u16::try_from(self.message.len()).unwrap_or(u16::MAX);
        out.extend(length.to_be_bytes());
        let id = id.to_be_bytes();
        let rest = self.message.get(id.len()..).unwrap_or_default();
        // The padding is the end of the message.
        let (front, padding) = rest.split_at(rest.len().saturating_sub(PADDING));
        out.extend(id);
        out.extend(front);
        out.extend(MAGIC);
        out.extend(nonce);
        out.extend(padding.get(MARK..).unwrap_or_default());
    }
}

/// An event of a dnstap stream that holds a probe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProbeEvent {
    /// It may be forged.
    pub nonce: Nonce,
    /// The event shows that the DNS server forwarded the probe.
    pub is_forwarded: bool,
    /// The event's `extra`.
    pub extra: Vec<u8>,
}

impl ProbeEvent {
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
        let front = message.get(..message.len().min(FURTHEST + MARK))?;
        let at = front.windows(MAGIC.len()).position(|part| part == MAGIC)?;
        Some(Self {
            nonce: *front.get(at + MAGIC.len()..)?.first_chunk()?,
            is_forwarded,
            extra,
        })
    }
}

/// The most probes waiting for the task; further ones are dropped and counted.
const QUEUE: usize = 4_096;

/// A probe that was seen in a stream. Any client of the DNS server can make one up.
#[derive(Clone, Copy, Debug)]
pub struct SeenProbe {
    pub nonce: Nonce,
    /// The server forwarded it.
    pub is_forwarded: bool,
    /// When its first octet came: all events that the server had buffered came before it.
    pub at: Instant,
}

/// The readers' end. Clones share it. By default nothing is reported.
#[derive(Clone, Debug, Default)]
pub struct ProbeReports(Option<mpsc::Sender<SeenProbe>>);

impl ProbeReports {
    pub fn new() -> (Self, mpsc::Receiver<SeenProbe>) {
        let (reports, seen) = mpsc::channel(QUEUE);
        (Self(Some(reports)), seen)
    }

    /// Whether a frame of this length may hold a probe: a cheap check that most frames fail.
    #[inline]
    pub fn may_be_probe(length: usize) -> bool {
        length > LONGEST_OTHER
    }

    /// Reports the probe in a long frame, if there is one. The frame's first octet came at `began`.
    /// `admits`: whether its `extra` has the secret.
    #[cold]
    pub fn report(&self, frame: &[u8], began: Instant, admits: impl FnOnce(&[u8]) -> bool) {
        let Some(reports) = &self.0 else {
            return;
        };
        let Some(event) = ProbeEvent::read(frame).filter(|event| admits(&event.extra)) else {
            return;
        };
        let seen = SeenProbe {
            nonce: event.nonce,
            is_forwarded: event.is_forwarded,
            at: began,
        };
        if reports.try_send(seen).is_err() {
            counter!("egress_collector_flush_reports_lost_total").increment(1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
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

    #[test]
    fn probe_is_known_again_by_its_nonce() {
        let nonce = nonce();
        let mut sent = Vec::new();
        let longest = format!("{}.{}", ["a"; 94].join("."), "b".repeat(63));
        for name in ["flush.cluster.local", &longest] {
            sent.clear();
            template(name).write(7, &nonce, &mut sent);
            for (kind, is_forwarded) in [
                (pb::message::Type::ClientQuery, false),
                (pb::message::Type::ForwarderQuery, true),
            ] {
                let frame = frame(kind, &sent[2..], "secret");
                assert!(frame.len() > LONGEST_OTHER);
                let event = ProbeEvent::read(&frame).unwrap();
                assert_eq!((event.nonce, event.is_forwarded), (nonce, is_forwarded));
                assert_eq!(event.extra, b"secret");
            }
            let response = frame(pb::message::Type::ClientResponse, &sent[2..], "");
            assert_eq!(ProbeEvent::read(&response), None);
        }
    }
}

//! Our parser compared with hickory-proto: messages that both accept must give the same result.

use std::{collections::HashSet, net::IpAddr};

use hickory_proto::{
    op::{Message, MessageType, Query},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME},
    },
};

use crate::{
    address::canonical,
    dns::{Error, Response},
};

/// Messages that both accept must give the same result.
pub(crate) fn check(message: &[u8]) {
    let ours = ours(message);
    let theirs = Message::from_vec(message);
    if let (Ok(said), Ok(decoded)) = (ours, theirs) {
        assert_eq!(said, self::theirs(&decoded));
    }
}

/// The content of a response, independent of the order of its records.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Said {
    id: u16,
    response: bool,
    opcode: u8,
    rcode: u8,
    truncated: bool,
    question: (Vec<Vec<u8>>, u16, u16),
    addresses: Vec<(IpAddr, u32)>,
}

pub(crate) fn ours(message: &[u8]) -> Result<Said, Error> {
    let response = Response::parse(message)?;
    let mut addresses = Vec::new();
    let result = response.addresses(|address, ttl| addresses.push((address, ttl)));
    // The names of a loop count, too.
    if result != Err(Error::Loop) {
        result?;
    }
    addresses.sort_unstable();
    let question = response.question();
    Ok(Said {
        id: response.id(),
        response: response.is_response(),
        opcode: response.opcode(),
        rcode: response.rcode(),
        truncated: response.truncated(),
        question: (
            question.name.lower().labels().map(<[u8]>::to_vec).collect(),
            question.qtype,
            question.qclass,
        ),
        addresses,
    })
}

pub(crate) fn theirs(message: &Message) -> Said {
    let [question] = &message.queries[..] else {
        panic!("{} questions", message.queries.len())
    };
    let head = &message.metadata;
    Said {
        id: head.id,
        response: head.message_type == MessageType::Response,
        opcode: head.op_code.into(),
        rcode: (u16::from(head.response_code) & 0xf) as u8,
        truncated: head.truncation,
        question: (
            labels(&question.name),
            question.query_type.into(),
            question.query_class.into(),
        ),
        addresses: reachable(question, &message.answers),
    }
}

fn labels(name: &Name) -> Vec<Vec<u8>> {
    name.iter().map(<[u8]>::to_ascii_lowercase).collect()
}

/// The chain rule in its simplest form: walk from name to name, and collect the addresses of each.
pub(crate) fn reachable(question: &Query, answers: &[Record]) -> Vec<(IpAddr, u32)> {
    let qtype = question.query_type;
    if question.query_class != DNSClass::IN || ![RecordType::A, RecordType::AAAA].contains(&qtype) {
        return Vec::new();
    }
    let answers = || {
        answers
            .iter()
            .filter(|record| record.dns_class == DNSClass::IN)
    };
    let ttl = |record: &Record| {
        if record.ttl > i32::MAX as u32 {
            0
        } else {
            record.ttl
        }
    };
    let (mut name, mut least) = (labels(&question.name), u32::MAX);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while seen.insert(name.clone()) {
        let mut next = None;
        for record in answers().filter(|record| labels(&record.name) == name) {
            let least = least.min(ttl(record));
            match &record.data {
                RData::CNAME(CNAME(target)) if next.is_none() => {
                    next = Some((labels(target), least))
                }
                RData::A(A(address)) if qtype == RecordType::A => {
                    found.push(((*address).into(), least))
                }
                RData::AAAA(AAAA(address)) if qtype == RecordType::AAAA => {
                    found.push((canonical((*address).into()), least));
                }
                _ => {}
            }
        }
        let Some(step) = next else { break };
        (name, least) = step;
    }
    found.sort_unstable();
    found
}

//! Our parser compared with hickory-proto: messages that both accept must give the same result.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME, MX, TXT},
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::fuzzing::dns::{ours, theirs};

/// A few names that share suffixes and differ in case, so that records refer to each other.
fn name() -> impl Strategy<Value = Name> {
    let label = prop_oneof![
        4 => "[ab]".prop_map(String::into_bytes),
        2 => "[aA][bB]c".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 1..20),
        1 => vec(Just(b'x'), 63),
    ];
    let labels = prop_oneof![6 => vec(label.clone(), 0..3), 1 => vec(label, 0..30)];
    labels.prop_filter_map("over 255 octets", |labels| Name::from_labels(labels).ok())
}

fn data(names: Vec<Name>) -> impl Strategy<Value = RData> {
    let mapped = (0..3_u32).prop_map(|low| Ipv4Addr::from(0xc000_0200 + low));
    prop_oneof![
        4 => mapped.clone().prop_map(|address| RData::A(A(address))),
        2 => mapped.prop_map(|address| RData::AAAA(AAAA(address.to_ipv6_mapped()))),
        3 => any::<u128>().prop_map(|address| RData::AAAA(AAAA(Ipv6Addr::from(address)))),
        5 => any::<Index>().prop_map(move |at| RData::CNAME(CNAME(at.get(&names).clone()))),
        1 => name().prop_map(|name| RData::MX(MX::new(1, name))),
        1 => Just(RData::TXT(TXT::new(vec!["text".to_owned()]))),
    ]
}

fn record(names: Vec<Name>) -> impl Strategy<Value = Record> {
    let class = prop_oneof![9 => Just(DNSClass::IN), 1 => Just(DNSClass::CH)];
    let ttl = prop_oneof![9 => 0..100_u32, 1 => any::<u32>()];
    let owner = any::<Index>();
    (owner, ttl, class, data(names.clone())).prop_map(move |(owner, ttl, class, data)| {
        let mut record = Record::from_rdata(owner.get(&names).clone(), ttl, data);
        record.dns_class = class;
        record
    })
}

/// Records about few names in any order: chains, forks, loops and unrelated names.
fn tangle(names: Vec<Name>) -> impl Strategy<Value = Vec<Record>> {
    vec(record(names), 0..12)
}

/// A chain through all names, to two addresses of each family, in any order.
fn chain(names: Vec<Name>) -> impl Strategy<Value = Vec<Record>> {
    let steps = names.windows(2).zip(1..).map(|(pair, ttl)| {
        Record::from_rdata(
            pair[0].clone(),
            100 - ttl,
            RData::CNAME(CNAME(pair[1].clone())),
        )
    });
    let end = names.last().unwrap();
    let addresses = (1..=2_u8).flat_map(|low| {
        let a = RData::A(A(Ipv4Addr::new(192, 0, 2, low)));
        let aaaa = RData::AAAA(AAAA(Ipv6Addr::from(
            0x2001_0db8_u128 << 96 | u128::from(low),
        )));
        [a, aaaa].map(|data| Record::from_rdata(end.clone(), 200, data))
    });
    Just(steps.chain(addresses).collect::<Vec<_>>()).prop_shuffle()
}

fn message() -> impl Strategy<Value = Message> {
    let qtype = prop_oneof![
        4 => Just(RecordType::A),
        4 => Just(RecordType::AAAA),
        1 => Just(RecordType::CNAME),
        1 => Just(RecordType::ANY),
    ];
    let qclass = prop_oneof![9 => Just(DNSClass::IN), 1 => Just(DNSClass::CH)];
    let answers = vec(name(), 1..8).prop_flat_map(|names| {
        let records = prop_oneof![2 => tangle(names.clone()), 1 => chain(names.clone())];
        (Just(names), records)
    });
    (
        any::<u16>(),
        any::<bool>(),
        0..6_u16,
        qtype,
        qclass,
        answers,
    )
        .prop_map(|(id, truncated, rcode, qtype, qclass, (names, answers))| {
            let mut message = Message::new(id, MessageType::Response, OpCode::Query);
            message.metadata.truncation = truncated;
            message.metadata.response_code = ResponseCode::from(0, rcode as u8);
            let mut question = Query::query(names[0].clone(), qtype);
            question.query_class = qclass;
            message.add_query(question);
            message.add_answers(answers);
            message.add_authority(Record::from_rdata(
                names[0].clone(),
                1,
                RData::A(A(Ipv4Addr::new(10, 0, 0, 1))),
            ));
            message
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_message_means_what_it_means_to_hickory(message in message()) {
        let octets = message.to_vec().unwrap();
        let decoded = Message::from_vec(&octets).unwrap();
        prop_assert_eq!(ours(&octets), Ok(theirs(&decoded)));
    }
}

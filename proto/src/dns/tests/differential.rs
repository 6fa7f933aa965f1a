//! Our parser compared with hickory-proto: both must understand a message alike.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME, TXT},
    },
};
use proptest::{bool::weighted, collection::vec, option, prelude::*, sample::select};

use crate::fuzzing::dns::{ours, theirs};

/// They share suffixes and differ in case, so that records make chains, forks and loops.
const NAMES: [&str; 6] = [".", "c.", "b.c.", "a.b.c.", "A.B.c.", "x.b.c."];

fn name() -> impl Strategy<Value = Name> {
    select(&NAMES).prop_map(|name| Name::from_ascii(name).unwrap())
}

fn class() -> impl Strategy<Value = DNSClass> {
    weighted(0.9).prop_map(|is_in| if is_in { DNSClass::IN } else { DNSClass::CH })
}

fn record() -> impl Strategy<Value = Record> {
    let v4 = || any::<u32>().prop_map(Ipv4Addr::from);
    let data = prop_oneof![
        4 => v4().prop_map(|it| RData::A(A(it))),
        2 => v4().prop_map(|it| RData::AAAA(AAAA(it.to_ipv6_mapped()))),
        3 => any::<u128>().prop_map(|it| RData::AAAA(AAAA(Ipv6Addr::from(it)))),
        6 => name().prop_map(|it| RData::CNAME(CNAME(it))),
        1 => Just(RData::TXT(TXT::new(vec!["text".to_owned()]))),
    ];
    let ttl = prop_oneof![9 => 0..100_u32, 1 => any::<u32>(), 1 => Just(i32::MAX as u32)];
    (name(), ttl, class(), data).prop_map(|(owner, ttl, class, data)| {
        let mut record = Record::from_rdata(owner, ttl, data);
        record.dns_class = class;
        record
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_message_means_what_it_means_to_hickory(
        (id, truncated, rcode) in (any::<u16>(), any::<bool>(), 0..6_u8),
        qtype in select(&[RecordType::A, RecordType::AAAA, RecordType::ANY]),
        (name, class) in (name(), class()),
        (answers, authority) in (vec(record(), 0..12), option::of(record())),
    ) {
        let mut message = Message::new(id, MessageType::Response, OpCode::Query);
        message.metadata.truncation = truncated;
        message.metadata.response_code = ResponseCode::from(0, rcode);
        let mut question = Query::query(name, qtype);
        question.query_class = class;
        message.add_query(question);
        message.add_answers(answers);
        message.add_authorities(authority);
        let octets = message.to_vec().unwrap();
        let decoded = Message::from_vec(&octets).unwrap();
        prop_assert_eq!(ours(&octets), Ok(theirs(&decoded)));
    }
}

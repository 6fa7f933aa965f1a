use std::net::IpAddr;

use proptest::{prelude::*, sample::Index};

use super::*;
use crate::dns::{MAX_HOPS, MAX_STEPS};

mod pointers;

/// A record of an answer: owner, type, class, TTL, data.
struct Rr<'a>(&'a str, u16, u16, u32, Vec<u8>);

fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn a(owner: &str, ttl: u32, address: [u8; 4]) -> Rr<'_> {
    Rr(owner, TYPE_A, CLASS_IN, ttl, address.to_vec())
}

fn cname<'a>(owner: &'a str, ttl: u32, target: &str) -> Rr<'a> {
    Rr(owner, TYPE_CNAME, CLASS_IN, ttl, wire(target))
}

fn message(name: &str, qtype: u16, records: &[Rr]) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 0x81, 0x80, 0, 1];
    message.extend((records.len() as u16).to_be_bytes());
    message.extend([0; 4]);
    message.extend(wire(name));
    message.extend(qtype.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    for Rr(owner, rtype, class, ttl, data) in records {
        message.extend(wire(owner));
        message.extend(rtype.to_be_bytes());
        message.extend(class.to_be_bytes());
        message.extend(ttl.to_be_bytes());
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}

/// Addresses as text with their TTL.
type Found = Vec<(String, u32)>;

/// The addresses, or the error.
fn read(message: &[u8]) -> Result<Found, Error> {
    let (found, error) = read_part(message)?;
    error.map_or(Ok(found), Err)
}

/// The addresses that can be read, and the first error of the answer section.
fn read_part(message: &[u8]) -> Result<(Found, Option<Error>), Error> {
    let mut found = Vec::new();
    let sink = |address: IpAddr, ttl| found.push((address.to_string(), ttl));
    let result = Response::parse(message)?.addresses(sink);
    Ok((found, result.err()))
}

fn expect(found: &[(String, u32)], expected: &[(&str, u32)]) {
    let found: Vec<_> = found.iter().map(|(ip, ttl)| (ip.as_str(), *ttl)).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_number_of_questions_must_be_one() {
    let mut message = message("www.example.com.", TYPE_A, &[]);
    for questions in [0, 2, 0x100] {
        message[4..6].copy_from_slice(&u16::to_be_bytes(questions));
        assert_eq!(read(&message), Err(Error::Questions(questions)));
    }
}

#[test]
fn a_chain_may_have_thirty_two_aliases() {
    let names: Vec<_> = (0..=33).map(|n| format!("n{n}.example.")).collect();
    let chain = |aliases: usize| {
        let mut records = vec![a(&names[aliases], 60, [192, 0, 2, 1])];
        // From the end to the start, which is the slowest order.
        for at in (0..aliases).rev() {
            records.push(cname(&names[at], 100 + at as u32, &names[at + 1]));
        }
        message(&names[0], TYPE_A, &records)
    };
    expect(&read(&chain(MAX_ALIASES)).unwrap(), &[("192.0.2.1", 60)]);
    let result = read(&chain(MAX_ALIASES + 1));
    assert!(matches!(result, Err(Error::Aliases { .. })), "{result:?}");
}

/// A message with one answer, whose owner, fixed part and data are these octets; they start at octet 21.
fn raw(answer: &[u8]) -> Vec<u8> {
    let mut message = message("a.b.", TYPE_A, &[]);
    assert_eq!(message.len(), RAW);
    message[7] = 1;
    message.extend(answer);
    message
}

const RAW: usize = 21;

/// Type A, class IN, TTL 60, and an address.
const FIXED: &[u8] = b"\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";

#[test]
fn data_must_have_the_length_of_their_type() {
    let data = |rtype: u8, length: u16, octets: &[u8]| {
        let fixed = [0, rtype, 0, 1, 0, 0, 0, 60];
        read(&raw(&[
            b"\xc0\x0c",
            &fixed[..],
            &length.to_be_bytes(),
            octets,
        ]
        .concat()))
    };
    let refused = Err(Error::DataLength { at: RAW + 12 });
    assert_eq!(data(1, 4, &[192, 0, 2, 1]).unwrap().len(), 1);
    assert_eq!(data(1, 0, &[]), refused);
    assert_eq!(data(1, 3, &[192, 0, 2]), refused);
    assert_eq!(data(1, 5, &[192, 0, 2, 1, 0]), refused);
    assert_eq!(data(5, 3, b"\x01c\0").unwrap(), []);
    assert_eq!(data(5, 2, b"\x01c\0"), refused);
    assert_eq!(data(5, 4, b"\x01c\0\0"), refused);
    assert_eq!(data(5, 2, b"\xc0\x0e").unwrap(), []);
    let behind = Err(Error::Truncated { at: RAW + 12 });
    assert_eq!(data(1, 4, &[192, 0, 2]), behind);
    assert_eq!(data(1, u16::MAX, &[192, 0, 2, 1]), behind);
    assert_eq!(data(16, 1, &[]), behind);
    assert_eq!(data(16, 0, &[]).unwrap(), []);
    // An AAAA record of a wrong length is of no interest to an A question.
    assert_eq!(data(28, 4, &[192, 0, 2, 1]).unwrap(), []);
}

#[test]
fn response_with_bad_records_gives_its_good_addresses() {
    let (owner, bad) = ("www.example.com.", vec![192, 0, 2]);
    let records = [
        a(owner, 60, [192, 0, 2, 1]),
        Rr(owner, TYPE_A, CLASS_IN, 60, bad),
        Rr(owner, TYPE_CNAME, CLASS_IN, 60, vec![0x41]),
        a("other.example.com.", 60, [192, 0, 2, 9]),
        a(owner, 60, [192, 0, 2, 2]),
    ];
    let whole = message(owner, TYPE_A, &records);
    let (found, error) = read_part(&whole).unwrap();
    expect(&found, &[("192.0.2.1", 60), ("192.0.2.2", 60)]);
    assert!(matches!(error, Some(Error::DataLength { .. })), "{error:?}");
    let (found, error) = read_part(&whole[..whole.len() - 1]).unwrap();
    expect(&found, &[("192.0.2.1", 60)]);
    assert!(error.is_some());
}

proptest! {
    #[test]
    fn a_message_cut_anywhere_is_refused(cut in any::<Index>()) {
        let whole = message("www.example.com.", TYPE_A, &[
            cname("www.example.com.", 300, "b.example.net."),
            a("b.example.net.", 60, [192, 0, 2, 1]),
        ]);
        let result = read(&whole[..cut.index(whole.len())]);
        prop_assert!(matches!(result, Err(Error::Truncated { .. })), "{:?}", result);
    }
}

#[test]
fn a_name_behind_the_reach_of_pointers_is_not_taken_for_one_within() {
    // A pointer has 14 bits: cut down to them, 0x400c is the position of the question's name.
    let mut answer = b"\0\0\xff\0\x01\0\0\0\0".to_vec();
    let padding = 0x400c - RAW - answer.len() - 2;
    answer.extend((padding as u16).to_be_bytes());
    answer.resize(0x400c - RAW, 0);
    answer.extend(b"\x01x\0");
    answer.extend(FIXED);
    answer.extend(b"\xc0\x0c");
    answer.extend(FIXED);
    let mut message = raw(&answer);
    message[7] = 3;
    expect(&read(&message).unwrap(), &[("192.0.2.1", 60)]);
}

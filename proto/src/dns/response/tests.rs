use std::net::IpAddr;

use super::*;
use crate::dns::{RCODE_NOERROR, RCODE_NXDOMAIN};

/// A record of an answer: owner, type, class, TTL, data.
struct Rr<'a>(&'a str, u16, u16, u32, Vec<u8>);

fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split_terminator('.') {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn a(owner: &str, ttl: u32, address: [u8; 4]) -> Rr<'_> {
    Rr(owner, TYPE_A, CLASS_IN, ttl, address.to_vec())
}

fn aaaa<'a>(owner: &'a str, ttl: u32, address: &str) -> Rr<'a> {
    let address: Ipv6Addr = address.parse().unwrap();
    Rr(owner, TYPE_AAAA, CLASS_IN, ttl, address.octets().to_vec())
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

/// The addresses as text with their TTL, or the error; and that an error comes without a call of the sink.
fn read(message: &[u8]) -> Result<Vec<(String, u32)>, Error> {
    let mut found = Vec::new();
    let sink = |address: IpAddr, ttl| found.push((address.to_string(), ttl));
    let result = Response::parse(message)?.addresses(sink);
    assert!(result.is_ok() || found.is_empty());
    result.map(|()| found)
}

fn answer(name: &str, qtype: u16, records: &[Rr]) -> Vec<(String, u32)> {
    read(&message(name, qtype, records)).unwrap()
}

fn expect(found: &[(String, u32)], expected: &[(&str, u32)]) {
    let found: Vec<_> = found.iter().map(|(ip, ttl)| (ip.as_str(), *ttl)).collect();
    assert_eq!(found, expected);
}

#[test]
fn header_and_question_are_read() {
    let mut message = message("wWw.Example.COM.", TYPE_AAAA, &[]);
    let response = Response::parse(&message).unwrap();
    assert_eq!(response.question().name.to_string(), "www.example.com.");
    assert_eq!(response.question().qtype, TYPE_AAAA);
    assert_eq!(response.question().qclass, CLASS_IN);
    assert_eq!(response.id(), 0xabcd);
    assert!(response.is_response());
    assert_eq!((response.opcode(), response.rcode()), (0, RCODE_NOERROR));
    assert!(!response.truncated());
    message[2] = 0x2a;
    message[3] = 0x83;
    let response = Response::parse(&message).unwrap();
    assert!(!response.is_response());
    assert!(response.truncated());
    assert_eq!((response.opcode(), response.rcode()), (5, RCODE_NXDOMAIN));
}

#[test]
fn an_address_has_the_smallest_ttl_of_its_chain() {
    let records = [
        cname("www.example.com.", 300, "b.example.net."),
        cname("b.example.net.", 20, "c.example.org."),
        a("c.example.org.", 60, [192, 0, 2, 1]),
        a("c.example.org.", 10, [192, 0, 2, 2]),
    ];
    let found = answer("www.example.com.", TYPE_A, &records);
    expect(&found, &[("192.0.2.1", 20), ("192.0.2.2", 10)]);
}

#[test]
fn a_mapped_address_is_handed_out_as_ipv4() {
    let records = [
        aaaa("www.example.com.", 60, "::ffff:192.0.2.1"),
        aaaa("www.example.com.", 60, "2001:db8::1"),
    ];
    let found = answer("www.example.com.", TYPE_AAAA, &records);
    expect(&found, &[("192.0.2.1", 60), ("2001:db8::1", 60)]);
}

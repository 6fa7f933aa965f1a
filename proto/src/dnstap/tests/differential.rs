//! The reader of CoreDNS's layout compared with prost on arbitrary bytes: it has the same values, or leaves them to
//! prost.

use crate::dnstap::{ClientResponse, pb};
use crate::fuzzing::dnstap::check;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;

fn a_number() -> impl Strategy<Value = i32> {
    prop_oneof![4 => 0..17, 1 => any::<i32>()]
}

prop_compose! {
    /// An event in CoreDNS's layout, with values on both sides of where an encoded length changes.
    fn usual_event()(
        (identity, version, extra) in (a_text(), a_text(), a_text()),
        r#type in prop_oneof![4 => Just(6), 1 => a_number()],
        (socket_family, socket_protocol) in (1..3, 1..8),
        query_address in prop_oneof![2 => Just(4), 2 => Just(16), 1 => 0u64..130],
        query_port in near(&[0, 1 << 7, 1 << 14, 1 << 16]),
        (query_time_sec, response_time_sec) in (seconds(), seconds()),
        (query_time_nsec, response_time_nsec) in any::<(u32, u32)>(),
        response_message in near(&[0, 60, 1 << 7, 500, 1 << 14]),
    ) -> pb::Dnstap {
        let bytes = |length| (0..length).map(|at| at as u8).collect();
        let message = pb::Message {
            r#type,
            socket_family: Some(socket_family),
            socket_protocol: Some(socket_protocol),
            query_address: Some(bytes(query_address)),
            query_port: Some(query_port as u32),
            query_time_sec: Some(query_time_sec),
            query_time_nsec: Some(query_time_nsec),
            response_time_sec: Some(response_time_sec),
            response_time_nsec: Some(response_time_nsec),
            response_message: Some(bytes(response_message)),
            ..pb::Message::default()
        };
        pb::Dnstap { identity, version, extra, message: Some(message), r#type: 1 }
    }
}

fn a_text() -> impl Strategy<Value = Option<Vec<u8>>> {
    let length = prop_oneof![8 => 1usize..30, 1 => 126usize..130];
    option::of(length.prop_map(|length| vec![b'x'; length]))
}

fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(1_800_000_000), 1 => near(&[1 << 28, 1 << 35])]
}

/// A number at most 2 away from one of these.
fn near(numbers: &'static [u64]) -> impl Strategy<Value = u64> {
    (prop::sample::select(numbers), 0..5u64)
        .prop_map(|(number, off)| (number + off).saturating_sub(2))
}

#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Truncate(prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => any::<(prop::sample::Index, u8)>().prop_map(|(at, value)| Mutation::Set(at, value)),
        2 => any::<(prop::sample::Index, u8)>().prop_map(|(at, value)| Mutation::Insert(at, value)),
        2 => any::<prop::sample::Index>().prop_map(Mutation::Remove),
        1 => any::<prop::sample::Index>().prop_map(Mutation::Truncate),
        1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(a, b)| Mutation::Repeat(a, b)),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations.iter().cloned() {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match mutation {
            Mutation::Set(at, value) => bytes[at.index(length)] = value,
            Mutation::Insert(at, value) => bytes.insert(at.index(length), value),
            Mutation::Remove(at) => drop(bytes.remove(at.index(length))),
            Mutation::Truncate(at) => bytes.truncate(at.index(length)),
            Mutation::Repeat(a, b) => {
                let (a, b) = (a.index(length), b.index(length));
                bytes.extend_from_within(a.min(b)..a.max(b));
            }
        }
    }
    bytes
}

/// The events of a stock CoreDNS.
fn captured() -> Vec<Vec<u8>> {
    let payloads = super::coredns::payloads();
    payloads.into_iter().map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn mutated_events_of_coredns_are_read_as_prost_reads_them(
        event in prop::sample::select(captured()),
        mutations in vec(mutation(), 0..6),
    ) {
        check(&mutate(event, &mutations));
    }

    #[test]
    fn events_of_the_usual_layout_are_read_as_prost_reads_them(event in usual_event()) {
        prop_assert!(check(&event.encode_to_vec()));
    }

    #[test]
    fn mutated_events_of_the_usual_layout_are_read_as_prost_reads_them(
        event in usual_event(),
        mutations in vec(mutation(), 1..4),
    ) {
        check(&mutate(event.encode_to_vec(), &mutations));
    }
}

#[test]
fn the_usual_layout_is_that_of_coredns() {
    let events = captured();
    let found = events
        .iter()
        .map(|event| ClientResponse::parse_usual(event).unwrap());
    assert_eq!(found.flatten().count(), 5);
}

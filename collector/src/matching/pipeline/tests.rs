use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use hickory_proto::{
    op::{Message, MessageType, Metadata, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use prost::Message as _;
use proto::{
    api::{DnsName, Family},
    dnstap::pb,
};
use runtime::clock::{Clock, Timestamp};

use crate::matching::pipeline::{Context, StreamHistory, observe};
use crate::{
    listen::metrics::{Counts, Outcome},
    matching::{answer_cache::AnswerCache, index::NameIndex, query_origin::OwnQueries},
};
use names::{Observation, Provenance};

/// A CLIENT_RESPONSE that a test changes before it is sent.
struct Event {
    kind: pb::message::Type,
    message: Message,
    dns: Option<Vec<u8>>,
    /// Of the time of the answer.
    nanoseconds: u32,
}

fn response(asked: &str, records: &[(&str, RData)]) -> Event {
    let name = Name::from_ascii(asked).unwrap();
    let mut message = Message::new(7, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(name, RecordType::A));
    for (owner, data) in records {
        message.add_answer(Record::from_rdata(
            Name::from_ascii(owner).unwrap(),
            30,
            data.clone(),
        ));
    }
    Event {
        kind: pb::message::Type::ClientResponse,
        message,
        dns: None,
        nanoseconds: 500_000_000,
    }
}

fn a(ip: &str) -> RData {
    RData::A(rdata::A(ip.parse::<Ipv4Addr>().unwrap()))
}

fn frame(event: &Event) -> Vec<u8> {
    let dns = event
        .dns
        .clone()
        .unwrap_or_else(|| event.message.to_vec().unwrap());
    let message = pb::Message {
        r#type: event.kind as i32,
        query_address: Some(vec![10, 0, 0, 1]),
        response_time_sec: Some(1_800_000_000),
        response_time_nsec: Some(event.nanoseconds),
        response_message: (!dns.is_empty()).then_some(dns),
        ..pb::Message::default()
    };
    pb::Dnstap {
        r#type: 1,
        message: Some(message),
        ..pb::Dnstap::default()
    }
    .encode_to_vec()
}

/// The frame of an answer for a wanted name.
pub(crate) fn wanted_frame() -> Vec<u8> {
    frame(&response(
        "www.example.com.",
        &[("www.example.com.", a("1.2.3.4"))],
    ))
}

/// The same with another address each time, since repeats of one answer are dropped.
pub(crate) fn another_wanted_frame() -> Vec<u8> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let address = Ipv4Addr::from(0x0102_0000 + NEXT.fetch_add(1, Relaxed));
    frame(&response(
        "www.example.com.",
        &[("www.example.com.", a(&address.to_string()))],
    ))
}

fn run_with(frame: &[u8], own: &OwnQueries) -> (Option<Observation>, Counts) {
    let wanted =
        ["www.example.com", "*.wild.example.com"].map(|text| DnsName::parse(text).unwrap());
    run_against(frame, &wanted.iter().collect(), own)
}

fn run_against(frame: &[u8], names: &NameIndex, own: &OwnQueries) -> (Option<Observation>, Counts) {
    let mut counts = Counts::default();
    let context = Context {
        names,
        clock: &Clock::manual(Timestamp::from_millis(1_800_000_001_000)),
        remembered: &AnswerCache::default(),
        own,
        secrets: None,
    };
    (
        observe(frame, context, &mut StreamHistory::default(), &mut counts),
        counts,
    )
}

#[test]
fn answer_counts_from_server_time_within_a_minute() {
    let at = |seconds: i64| Timestamp::from_millis(1_800_000_000_000 + seconds * 1000);
    for (server_time, expected) in [
        (Some(0), 0),
        (Some(-60), -60),
        (Some(-61), 0),
        (Some(1), 0),
        (Some(-3600), 0),
        (None, 0),
    ] {
        let counted = super::counts_from(server_time.map(at), at(0));
        assert_eq!(counted, at(expected), "{server_time:?}");
    }
}

/// The observation of an event in a stream.
fn observe_in_stream(
    event: &Event,
    names: &NameIndex,
    clock: &Clock,
    remembered: &AnswerCache,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Option<Observation> {
    let own = OwnQueries::default();
    let context = Context {
        names,
        clock,
        remembered,
        own: &own,
        secrets: None,
    };
    let frame = frame(event);
    observe(&frame, context, history, counts)
}

#[test]
fn answer_repeated_in_a_stream_is_observed_once() {
    let index = || -> NameIndex {
        let wanted = DnsName::parse("www.example.com").unwrap();
        [&wanted].into_iter().collect()
    };
    let mut names = index();
    let (clock, remembered) = (Clock::manual(Timestamp::default()), AnswerCache::default());
    let (mut history, mut counts) = (
        StreamHistory::of_stream(Provenance::STREAM),
        Counts::default(),
    );
    let mut is_observed =
        |event: &Event, millis: i64, names: &NameIndex, history: &mut StreamHistory| {
            clock.set(Timestamp::from_millis(1_800_000_000_000 + millis));
            observe_in_stream(event, names, &clock, &remembered, history, &mut counts).is_some()
        };
    let answer = || response("www.example.com.", &[("www.example.com.", a("192.0.2.1"))]);
    let mut again = answer();
    again.message.metadata.id = 8;
    assert!(is_observed(&answer(), 0, &names, &mut history));
    assert!(!is_observed(&answer(), 1, &names, &mut history));
    assert!(!is_observed(&again, 99, &names, &mut history));
    // A history without slots drops no repeat.
    assert!(is_observed(
        &again,
        99,
        &names,
        &mut StreamHistory::default()
    ));
    // Other addresses, or another time.
    let other = response("www.example.com.", &[("www.example.com.", a("192.0.2.2"))]);
    assert!(is_observed(&other, 99, &names, &mut history));
    assert!(is_observed(&again, 100, &names, &mut history));
    assert!(!is_observed(&answer(), 199, &names, &mut history));
    // Answers of a pause are read at once.
    let mut later = answer();
    later.nanoseconds += 100_000_000;
    assert!(is_observed(&later, 199, &names, &mut history));
    // The rule may have been removed and added again.
    names = index();
    assert!(is_observed(&answer(), 199, &names, &mut history));
    assert_eq!(counts.pending(Outcome::Repeated), 3);
}

fn outcome(frame: &[u8]) -> Outcome {
    let (observation, counts) = run_with(frame, &OwnQueries::default());
    let all = Outcome::ALL
        .iter()
        .copied()
        .filter(|outcome| counts.pending(*outcome) > 0);
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 1, "{all:?}");
    let is_observed = matches!(all[0], Outcome::Observed | Outcome::Partial);
    assert_eq!(observation.is_some(), is_observed);
    all[0]
}

#[test]
fn answer_for_a_wanted_name_is_an_observation_unless_it_is_ours() {
    let event = response("WWW.Example.com.", &[("www.example.com.", a("1.2.3.4"))]);
    let frame = frame(&event);
    let own = OwnQueries::default();
    let observation = run_with(&frame, &own).0.unwrap();
    assert_eq!(observation.name.as_str(), "www.example.com.");
    assert_eq!(observation.family, Family::V4);
    assert_eq!(
        observation.addresses.as_slice(),
        [("1.2.3.4".parse::<IpAddr>().unwrap(), 30)]
    );
    assert_eq!(observation.at, Timestamp::from_millis(1_800_000_001_000));
    assert_eq!(
        observation.server_time,
        Some(Timestamp::from_millis(1_800_000_000_500))
    );
    let client: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(observation.client, Some(client));
    own.set(std::sync::Arc::new([client].into()));
    let (observation, counts) = run_with(&frame, &own);
    assert_eq!(observation, None);
    assert_eq!(counts.pending(Outcome::Collector), 1);
}

#[test]
fn each_event_is_counted_by_what_comes_of_it() {
    let of = |asked: &str, owner: &str| response(asked, &[(owner, a("1.2.3.4"))]);
    let (www, under, other) = (
        "www.example.com.",
        "a_b.wild.example.com.",
        "other.example.com.",
    );
    let changed = |change: &dyn Fn(&mut Event)| {
        let mut event = of(www, www);
        change(&mut event);
        event
    };
    let metadata = |change: fn(&mut Metadata)| changed(&|it| change(&mut it.message.metadata));
    let cut = |octets: usize| {
        let mut event = response(www, &[(www, a("1.2.3.4")), (www, a("1.2.3.5"))]);
        event.message.metadata.truncation = true;
        let dns = event.message.to_vec().unwrap();
        event.dns = Some(dns[..dns.len() - octets].to_vec());
        event
    };
    let txt = Query::query(Name::from_ascii(www).unwrap(), RecordType::TXT);
    use pb::message::Type;
    for (expected, event) in [
        (Outcome::Observed, of(www, www)),
        (Outcome::Observed, of(under, under)),
        (Outcome::NotWanted, of(other, other)),
        (Outcome::NoAddress, response(www, &[])),
        (Outcome::NoAddress, of(www, other)),
        (
            Outcome::OtherKind,
            changed(&|it| it.kind = Type::ForwarderResponse),
        ),
        (
            Outcome::OtherKind,
            changed(&|it| it.kind = Type::ClientQuery),
        ),
        (
            Outcome::OtherType,
            metadata(|it| it.op_code = OpCode::Status),
        ),
        (
            Outcome::OtherType,
            changed(&|it| it.message.queries = vec![txt.clone()]),
        ),
        (
            Outcome::Failure,
            metadata(|it| it.response_code = ResponseCode::NXDomain),
        ),
        (Outcome::NoMessage, changed(&|it| it.dns = Some(Vec::new()))),
        (
            Outcome::BadMessage,
            changed(&|it| it.dns = Some(vec![1, 2, 3])),
        ),
        (
            Outcome::BadMessage,
            metadata(|it| it.message_type = MessageType::Query),
        ),
        (Outcome::Partial, cut(1)),
        // Without the whole of the first address.
        (Outcome::BadMessage, cut(17)),
    ] {
        assert_eq!(outcome(&frame(&event)), expected);
    }
    assert_eq!(outcome(b"\xff\xff\xff"), Outcome::BadEvent);
}

/// Answers that were seen in clusters, with other names and addresses.
#[test]
fn answer_from_the_field_gives_its_addresses() {
    #[derive(serde::Deserialize)]
    struct Case {
        about: String,
        answer: String,
        addresses: Vec<IpAddr>,
    }
    let cases: Vec<Case> = serde_json::from_str(include_str!("tests/answers.json")).unwrap();
    let names: NameIndex = [&DnsName::parse("*.shop.example").unwrap()]
        .into_iter()
        .collect();
    for case in cases {
        let octets = case.answer.as_bytes().chunks(2);
        let octets = octets.map(|it| u8::from_str_radix(str::from_utf8(it).unwrap(), 16).unwrap());
        let answer: Vec<u8> = octets.collect();
        let event = Event {
            dns: Some(answer),
            ..response("www.shop.example.", &[])
        };
        // CoreDNS before 1.14.5 sends the address of an IPv4 client in this form.
        let mut event = pb::Dnstap::decode(frame(&event).as_slice()).unwrap();
        let message = event.message.as_mut().unwrap();
        let client = Ipv4Addr::new(10, 244, 0, 7);
        message.query_address = Some(client.to_ipv6_mapped().octets().to_vec());
        let observation = run_against(&event.encode_to_vec(), &names, &OwnQueries::default()).0;
        let observation = observation.unwrap_or_else(|| panic!("{}", case.about));
        let addresses: Vec<IpAddr> = observation.addresses.iter().map(|(ip, _)| *ip).collect();
        assert_eq!(addresses, case.addresses, "{}", case.about);
        assert_eq!(observation.client, Some(client.into()));
        let in_wildcard = observation.name.as_str() == "*.shop.example.";
        assert_eq!(in_wildcard, case.about.contains("underscore"));
        assert_eq!(observation.truncated, case.about.contains("record"));
    }
}

#[test]
fn answer_of_thousands_of_addresses_is_limited() {
    let records: Vec<_> = (0..3000_u32)
        .map(|i| {
            (
                "www.example.com.",
                RData::A(rdata::A(Ipv4Addr::from(0x1400_0000 + i))),
            )
        })
        .collect();
    let frame = frame(&response("www.example.com.", &records));
    let (observed, _) = run_with(&frame, &OwnQueries::default());
    assert_eq!(observed.unwrap().addresses.len(), super::MAX_ADDRESSES);
}

use std::io::Cursor;

use ::tests::dnstap::{answer, event_for};
use prost::Message as _;
use proto::dnstap::pb;
use serde_json::{Value, json};

use super::*;

const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

/// An answer of a wanted name to 10.0.0.1.
fn wanted_frame() -> Vec<u8> {
    let answer = answer("www.example.com.", &["1.2.3.4".parse().unwrap()], 30);
    let event = event_for(Some([10, 0, 0, 1].into()), answer);
    let mut event = pb::Dnstap::decode(event.as_slice()).unwrap();
    let message = event.message.as_mut().unwrap();
    message.response_time_sec = Some(1_800_000_000);
    message.response_time_nsec = Some(500_000_000);
    event.encode_to_vec()
}

fn data(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&length.to_be_bytes(), payload].concat()
}

fn replay(parts: &[&[u8]], format: Output) -> (String, anyhow::Result<()>) {
    let limits = Limits {
        lookups: false,
        ..Limits::default()
    };
    let config = controller::Config {
        objects: ObjectPolicy::of_egress_firewalls("", ManageObjects::Always),
        limits,
        ..controller::Config::default()
    };
    let names = ["*.example.com", "quiet.example.org"].map(|it| DnsName::parse(it).unwrap());
    let names = names.map(|name| (name, RetentionPolicy::default()));
    let mut out = Vec::new();
    let mut replay = Replay::new(config, names.into(), format, &mut out);
    let read = replay.read(&mut Cursor::new(parts.concat()));
    replay.end().unwrap();
    (String::from_utf8(out).unwrap(), read)
}

#[test]
fn an_event_of_a_time_that_cannot_be_changes_the_time_of_no_other() {
    let wanted = wanted_frame();
    let mut event = pb::Dnstap::decode(wanted.as_slice()).unwrap();
    let message = event.message.as_mut().unwrap();
    message.response_time_sec = Some((i64::MAX / 1000).unsigned_abs());
    let odd = data(&event.encode_to_vec());
    let (text, read) = replay(&[START, &odd, &data(&wanted), STOP], Output::Text);
    read.unwrap();
    assert!(
        text.contains("2027-01-15T08:00:00.500Z observed www.example.com."),
        "{text}"
    );
    assert!(
        text.ends_with("*.example.com. www.example.com.: 1.2.3.4\n  quiet.example.org.: nothing\n"),
        "{text}"
    );
}

#[test]
fn a_file_shows_what_was_observed_and_what_came_of_it() {
    let wanted = data(&wanted_frame());
    let (text, read) = replay(
        &[START, &wanted, &data(b"\xff"), &wanted, STOP],
        Output::Text,
    );
    read.unwrap();
    let observed =
        "2027-01-15T08:00:00.500Z observed www.example.com. A 1.2.3.4 (30 s), asked by 10.0.0.1";
    assert_eq!(
        text,
        format!(
            "{observed}
2027-01-15T08:00:00.500Z opened 1.2.3.4 for *.example.com., as www.example.com.
{observed}

3 events
         1 bad_event
         2 observed

at the end
  *.example.com. www.example.com.: 1.2.3.4
  quiet.example.org.: nothing
"
        )
    );
}

#[test]
fn the_same_is_there_as_json() {
    let (text, read) = replay(&[START, &data(&wanted_frame()), STOP], Output::Json);
    read.unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [observed, changed, summary] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert_eq!(observed["addresses"], json!([{"ip": "1.2.3.4", "ttl": 30}]));
    assert_eq!(
        *changed,
        json!({
            "what": "changed", "at": "2027-01-15T08:00:00.500Z", "rule": "*.example.com.",
            "name": "www.example.com.", "address": "1.2.3.4", "added": true,
        })
    );
    assert_eq!(summary["events"], json!({"observed": 1}));
    let kept =
        json!({"rule": "*.example.com.", "name": "www.example.com.", "addresses": ["1.2.3.4"]});
    assert_eq!(summary["names"][0], kept);
}

#[test]
fn an_address_leaves_when_its_time_is_over() {
    let mut event =
        <proto::dnstap::pb::Dnstap as prost::Message>::decode(&*wanted_frame()).unwrap();
    let message = event.message.as_mut().unwrap();
    message.response_time_sec = Some(1_800_000_060);
    message.response_message = Some(Vec::new());
    let later = prost::Message::encode_to_vec(&event);
    let (text, read) = replay(
        &[START, &data(&wanted_frame()), &data(&later), STOP],
        Output::Text,
    );
    read.unwrap();
    let closed = "2027-01-15T08:01:00.500Z closed 1.2.3.4 for *.example.com., as www.example.com.";
    assert!(text.contains(closed), "{text}");
}

#[test]
fn what_comes_before_a_file_breaks_off_is_shown() {
    let wanted = data(&wanted_frame());
    let half = wanted.get(..wanted.len() / 2).unwrap();
    for (rest, words) in [
        (&b""[..], "without STOP"),
        (half, "within"),
        (b"\xff\xff\xff\xff", "frame"),
    ] {
        let (text, read) = replay(&[START, &wanted, rest], Output::Text);
        let error = format!("{:#}", read.unwrap_err());
        assert!(error.contains(words), "{error}");
        assert!(text.contains("opened 1.2.3.4"), "{text}");
    }
    for file in [&b""[..], b"no stream at all", &wanted] {
        let (text, read) = replay(&[file], Output::Text);
        assert!(read.is_err());
        assert!(text.contains("\n0 events"), "{text}");
    }
}

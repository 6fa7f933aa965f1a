//! `/answers/MILLISECONDS`: the answers with addresses to clients from now on, a line of JSON each.
//!
//! The answers are decoded here from copies of the frames: the readers of the streams do not wait for it.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    future::ready,
    stream::{once, unfold},
};
use prost::Message as _;
use proto::{
    dnstap,
    facts::{AnswerLine, ClientAnswer},
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    listen::{Capture, payloads},
    matching::{
        pipeline::{MAX_ADDRESSES, address_answer},
        query_origin::OwnQueries,
    },
    publish::guards::{CurrentGuards, Guards},
};

/// A window works for so long at most before it pauses. The pauses leave the processors to the readers of the streams: a window takes a
/// fifth of one. What does not fit its queue meanwhile is lost and counted.
const SLICE: Duration = Duration::from_millis(5);

/// A pause lasts so many times as long as the work before it.
const PAUSES: u32 = 4;

/// What the answers are judged by.
#[derive(Clone, Debug)]
pub struct Decoding {
    /// The collectors' own queries, which are no client's.
    pub own: OwnQueries,
    pub guards: CurrentGuards,
}

/// The body of a window. The permit is held as long as its client reads.
pub(super) fn body(
    capture: Capture,
    duration: Duration,
    decoding: Decoding,
    permit: OwnedSemaphorePermit,
) -> Body {
    let lines = lines(capture, duration, decoding);
    Body::from_stream(lines.inspect(move |_| {
        let _held = &permit;
    }))
}

fn lines(
    capture: Capture,
    duration: Duration,
    decoding: Decoding,
) -> impl Stream<Item = serde_json::Result<Bytes>> {
    let until = Instant::now() + duration;
    let Capture { frames, lost } = capture;
    let state = (frames, decoding, Duration::ZERO);
    let lines = unfold(
        state,
        move |(mut frames, decoding, mut worked)| async move {
            if worked > SLICE {
                sleep(PAUSES * worked).await;
                worked = Duration::ZERO;
            }
            // A busy stream is always ready, and a time-out alone would then never end.
            if Instant::now() >= until {
                return None;
            }
            let read = timeout_at(until, frames.recv()).await.ok()??;
            let began = Instant::now();
            let lines = lines_of(&read, &decoding);
            Some((lines, (frames, decoding, worked + began.elapsed())))
        },
    );
    let lines = lines.filter(|lines| ready(!lines.as_ref().is_ok_and(Bytes::is_empty)));
    let end = async move {
        let lost_bytes = lost.load(Relaxed);
        serde_json::to_vec(&AnswerLine::End { lost_bytes }).map(Bytes::from)
    };
    lines.chain(once(end))
}

/// The lines of the frames of one read.
fn lines_of(frames: &[u8], decoding: &Decoding) -> serde_json::Result<Bytes> {
    let guards = decoding.guards.now();
    let mut lines = Vec::new();
    for answer in payloads(frames).filter_map(|payload| answer(payload, &decoding.own, &guards)) {
        serde_json::to_writer(&mut lines, &AnswerLine::Answer(answer))?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}

/// The answer in an event, if it has addresses and is not to a collector's own query.
fn answer(payload: &[u8], own: &OwnQueries, guards: &Guards) -> Option<ClientAnswer> {
    let decoded;
    let event = match dnstap::ClientResponse::parse_usual(payload) {
        Some(event) => event?,
        None => {
            decoded = dnstap::pb::Dnstap::decode(payload).ok()?;
            dnstap::ClientResponse::of(&decoded)?
        }
    };
    let client = event.client();
    if client.is_some_and(|client| own.contains(client)) {
        return None;
    }
    let response = address_answer(event).ok()?.response;
    let (mut addresses, mut guard) = (Vec::new(), None);
    // What is good in the message counts, as for names with a rule.
    let _part = response.addresses(|address, _| match guards.admit(address) {
        Ok(address) if addresses.len() < MAX_ADDRESSES => addresses.push(address),
        Ok(_) => {}
        Err(refused) => guard = Some(refused.to_owned()),
    });
    if addresses.is_empty() && guard.is_none() {
        return None;
    }
    let mut name = response.question().name.lower().to_string();
    name.pop();
    Some(ClientAnswer {
        name,
        client,
        addresses,
        guard,
    })
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use tokio::sync::watch;

    use super::*;
    use crate::{listen::CaptureSubscribers, matching::pipeline::tests::wanted_frame};

    /// The client of the frame.
    const CLIENT: &str = "10.0.0.1";

    fn framed(payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length, payload].concat()
    }

    /// Refuses this network.
    fn decoding(own: OwnQueries, denied: &str) -> Decoding {
        let guards = CurrentGuards {
            guards: Guards::new(vec![denied.parse().unwrap()]),
            networks: watch::channel(None).1,
        };
        Decoding { own, guards }
    }

    async fn window(frames: &[Vec<u8>], decoding: Decoding) -> Vec<AnswerLine> {
        let captures = CaptureSubscribers::default();
        let capture = captures.open().unwrap();
        for frame in frames {
            captures.offer(frame, false);
        }
        drop(captures);
        let lines = lines(capture, Duration::from_secs(60), decoding);
        let lines: Vec<_> = lines.map(Result::unwrap).collect().await;
        let lines = lines.concat();
        let lines = lines.split(|it| *it == b'\n').filter(|it| !it.is_empty());
        lines
            .map(|it| serde_json::from_slice(it).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn window_has_the_answers_to_clients_without_refused_addresses() {
        let wanted = framed(&wanted_frame());
        let two = [&wanted[..], &framed(b"\xff\xff"), &wanted].concat();
        let answered = |addresses: &[&str], guard: Option<&str>| {
            AnswerLine::Answer(ClientAnswer {
                name: "www.example.com".to_owned(),
                client: Some(CLIENT.parse().unwrap()),
                addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
                guard: guard.map(str::to_owned),
            })
        };
        let collectors = OwnQueries::default();
        collectors.set(Arc::new([CLIENT.parse::<IpAddr>().unwrap()].into()));
        for (own, denied, expected) in [
            (
                OwnQueries::default(),
                "198.51.100.0/24",
                vec![answered(&["1.2.3.4"], None); 3],
            ),
            (
                OwnQueries::default(),
                "1.2.3.0/24",
                vec![answered(&[], Some("deny-answer")); 3],
            ),
            (collectors, "198.51.100.0/24", Vec::new()),
        ] {
            let frames = [two.clone(), wanted.clone()];
            let mut lines = window(&frames, decoding(own, denied)).await;
            assert_eq!(lines.pop(), Some(AnswerLine::End { lost_bytes: 0 }));
            assert_eq!(lines, expected);
        }
    }

    #[tokio::test]
    async fn end_says_how_many_bytes_came_too_fast() {
        let captures = CaptureSubscribers::default();
        let capture = captures.open().unwrap();
        for _ in 0..100 {
            captures.offer(&framed(b"1234"), false);
        }
        drop(captures);
        let decoding = decoding(OwnQueries::default(), "198.51.100.0/24");
        let lines = lines(capture, Duration::from_secs(60), decoding);
        let lines: Vec<_> = lines.map(Result::unwrap).collect().await;
        assert_eq!(lines, ["{\"end\":{\"lostBytes\":288}}"]);
    }
}

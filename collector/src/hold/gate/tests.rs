use std::sync::Arc;

use futures_util::FutureExt;
use proto::api::DnsName;
use tokio::time::advance;

use super::*;

/// An answer with this address for a name of eight octets below `example.com`.
fn reply(name: &str, address: [u8; 4]) -> Vec<u8> {
    let mut message = b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0\x08".to_vec();
    message.extend_from_slice(name.as_bytes());
    message
        .extend_from_slice(b"\x07example\x03com\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
    message.extend_from_slice(&address);
    message
}

fn new_reply() -> Vec<u8> {
    reply("aaaaaaaa", [192, 0, 2, 1])
}

/// A gate for `*.example.com`, and the publisher's end.
fn gate() -> (Gate, mpsc::Receiver<HeldAnswer>, HoldState) {
    let index = SharedIndex::default();
    let wanted = DnsName::parse("*.example.com").unwrap();
    index.store(Arc::new([&wanted].into_iter().collect()));
    let (sender, held) = mpsc::channel(MOST_HELD);
    let state = HoldState::default();
    let gate = Gate::new(index, Clock::system(), sender, state.clone());
    (gate, held, state)
}

#[tokio::test(start_paused = true)]
async fn answer_waits_for_its_status_and_the_slack() {
    let (gate, mut held, _) = gate();
    let reply = new_reply();
    let mut passing = Box::pin(gate.pass(&reply));
    assert_eq!(passing.as_mut().now_or_never(), None);
    let answer = held.recv().await.unwrap();
    assert_eq!(answer.observation.name.as_str(), "aaaaaaaa.example.com.");
    assert_eq!(answer.observation.source, names::Provenance::HOLD);
    answer.settled.send(Settled::Written).unwrap();
    let written = Instant::now();
    passing.await;
    assert_eq!(written.elapsed(), SLACK);
    // The same address of the name passes without the publisher.
    assert_eq!(gate.pass(&reply).now_or_never(), Some(()));
    assert!(held.try_recv().is_err());
    advance(SETTLED_FOR).await;
    assert_eq!(gate.pass(&reply).now_or_never(), None);
    assert!(held.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn answer_without_a_status_in_time_goes_after_the_longest_time() {
    let (gate, mut held, _) = gate();
    let began = Instant::now();
    gate.pass(&new_reply()).await;
    assert_eq!(began.elapsed(), LONGEST);
    assert!(held.recv().await.unwrap().settled.is_closed());
    // A late status does not extend it.
    let began = Instant::now();
    let write = async {
        let answer = held.recv().await.unwrap();
        advance(LONGEST - SLACK / 2).await;
        answer.settled.send(Settled::Written).unwrap();
    };
    let reply = reply("bbbbbbbb", [192, 0, 2, 1]);
    tokio::join!(gate.pass(&reply), write);
    assert_eq!(began.elapsed(), LONGEST);
}

#[tokio::test(start_paused = true)]
async fn answer_that_needs_no_status_goes_at_once() {
    let (gate, mut held, state) = gate();
    let began = Instant::now();
    for settled in [Some(Settled::Known), None] {
        let publish = async {
            let answer = held.recv().await.unwrap();
            if let Some(settled) = settled {
                answer.settled.send(settled).unwrap();
            }
        };
        let reply = reply("aaaaaaaa", [192, 0, 2, 1 + u8::from(settled.is_none())]);
        tokio::join!(gate.pass(&reply), publish);
    }
    // Another question, an error, no address, and what is no message.
    let mut failed = new_reply();
    failed[3] = 0x83;
    let mut other_parent = new_reply();
    other_parent[22] = b'f';
    let no_address = new_reply()[..12 + 22 + 4].to_vec();
    for reply in [failed, other_parent, no_address, vec![0; 3]] {
        assert_eq!(gate.pass(&reply).now_or_never(), Some(()), "{reply:?}");
    }
    state.set_passes(true);
    let another = reply("bbbbbbbb", [192, 0, 2, 9]);
    assert_eq!(gate.pass(&another).now_or_never(), Some(()));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_more_than_the_most_held_passes() {
    let (gate, _held, _) = gate();
    let replies: Vec<_> = (0..=MOST_HELD as u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            reply("aaaaaaaa", [192, 0, high, low])
        })
        .collect();
    let mut waiting: Vec<_> = replies.iter().map(|it| Box::pin(gate.pass(it))).collect();
    let passed = waiting
        .iter_mut()
        .filter_map(|it| it.as_mut().now_or_never());
    assert_eq!(passed.count(), 1);
}

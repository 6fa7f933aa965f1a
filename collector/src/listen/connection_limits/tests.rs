use super::*;
use crate::matching::queue::tests::{observation, send};

fn connections(limits: MaxConnections) -> ConnectionTable {
    ConnectionTable::new(limits, queue::channel(1 << 20).0)
}

fn limits() -> MaxConnections {
    MaxConnections {
        connections: 4,
        of_peer: 2,
    }
}

fn peer(text: &str) -> Peer {
    Peer::Address(text.parse().unwrap())
}

#[test]
fn connections_are_limited_per_peer_and_in_total_and_closing_frees_one() {
    let connections = connections(limits());
    let take = |text, is_known| connections.take(&peer(text), is_known);
    let first = take("192.0.2.1:1", true).unwrap();
    let _second = take("[::ffff:192.0.2.1]:2", true).unwrap();
    assert_eq!(take("192.0.2.1:3", true).unwrap_err(), "too_many_of_peer");
    drop(first);
    let _third = take("192.0.2.1:3", true).unwrap();
    let _fourth = take("192.0.2.2:1", true).unwrap();
    let _fifth = take("192.0.2.2:2", true).unwrap();
    assert_eq!(take("192.0.2.3:1", true).unwrap_err(), "too_many");
}

#[test]
fn peers_that_are_not_known_leave_half_of_the_seats() {
    let connections = connections(limits());
    let take = |text, is_known| connections.take(&peer(text), is_known);
    let mut one = take("192.0.2.1:1", false).unwrap();
    let _two = take("192.0.2.2:1", false).unwrap();
    assert_eq!(take("192.0.2.3:1", false).unwrap_err(), "too_many_unknown");
    let _three = take("192.0.2.3:1", true).unwrap();
    one.set_known(true);
    let _four = take("192.0.2.4:1", false).unwrap();
    drop(one);
    assert_eq!(take("192.0.2.5:1", false).unwrap_err(), "too_many_unknown");
    take("192.0.2.5:1", true).unwrap();
}

#[test]
fn who_is_connected_is_told_with_what_came_and_what_was_dropped() {
    let connections = connections(limits());
    let one = connections.take(&peer("192.0.2.1:1"), true).unwrap();
    let two = connections.take(&peer("192.0.2.1:2"), true).unwrap();
    let gone = connections.take(&peer("192.0.2.2:1"), true).unwrap();
    let lost = Drops { queue: 1, share: 2 };
    one.tell(10, Drops::default());
    two.tell(5, lost);
    gone.tell(1, lost);
    drop(gone);
    let view = PeerView {
        peer: "192.0.2.1".to_owned(),
        is_known: true,
        connections: 2,
        frames: 15,
        lost: 3,
    };
    assert_eq!(connections.view(), [view]);
    let twice = Drops { queue: 2, share: 4 };
    assert_eq!(connections.drops(), twice);
    let _unknown = connections.take(&peer("192.0.2.3:1"), false).unwrap();
    let known = connections.known_addresses();
    assert_eq!(known, [Some([192, 0, 2, 1].into())].into());
}

#[test]
fn nothing_is_left_of_peers_that_have_gone() {
    let connections = connections(limits());
    for i in 0..1000 {
        drop(connections.take(
            &peer(&format!("10.0.{}.{}:1", i / 250, i % 250)),
            i % 2 == 0,
        ));
    }
    let table = connections.table.lock();
    assert_eq!((table.taken, table.unknown), (0, 0));
    assert!(table.peers.is_empty());
}

#[tokio::test]
async fn a_peer_that_comes_back_has_the_share_of_the_queue_that_it_had() {
    let (sender, mut queue) = queue::channel(64 << 10);
    let connections = ConnectionTable::new(limits(), sender);
    let take = |text: &str| connections.take(&peer(text), true).unwrap();
    let fill = |permit: &ConnectionPermit| {
        let send = || send(connections.observations(), observation(1), permit.share());
        std::iter::from_fn(|| send().ok()).count()
    };
    let first = take("192.0.2.1:1");
    let share = fill(&first);
    assert!(share > 10);
    drop(first);
    let again = take("192.0.2.1:2");
    assert_eq!(fill(&again), 0);
    assert_eq!(fill(&take("192.0.2.2:1")), share);
    drop(again);
    for _ in 0..2 * share {
        queue.recv().await.unwrap();
    }
    assert_eq!(fill(&take("192.0.2.1:1")), share);
}

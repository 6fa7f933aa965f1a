use super::*;
use crate::matching::queue::tests::{observation, send};

fn table() -> ConnectionTable {
    ConnectionTable::new(queue::channel(1 << 20).0)
}

fn peer(text: &str) -> Peer {
    Peer::Address(text.parse().unwrap())
}

/// Takes a permit for each of so many peers with addresses of their own.
fn fill(connections: &ConnectionTable, count: usize, is_known: bool) -> Vec<ConnectionPermit> {
    let permits = (0..count).map(|i| {
        let address = format!("10.0.{}.{}:1", i / 250, i % 250);
        connections.permit(&peer(&address), is_known).unwrap()
    });
    permits.collect()
}

#[test]
fn connections_are_limited_per_peer_and_closing_frees_one() {
    let connections = table();
    let permit = |text: &str| connections.permit(&peer(text), true);
    let first = permit("192.0.2.1:1").unwrap();
    let _more: Vec<_> = (1..MAX_OF_PEER)
        .map(|_| permit("[::ffff:192.0.2.1]:2").unwrap())
        .collect();
    assert_eq!(permit("192.0.2.1:3").unwrap_err(), "too_many_of_peer");
    drop(first);
    permit("192.0.2.1:3").unwrap();
}

#[test]
fn connections_are_limited_in_total() {
    let connections = table();
    let mut permits = fill(&connections, MAX_CONNECTIONS, true);
    let refused = connections.permit(&peer("192.0.2.1:1"), true);
    assert_eq!(refused.unwrap_err(), "too_many");
    permits.pop();
    connections.permit(&peer("192.0.2.1:1"), true).unwrap();
}

#[test]
fn unknown_peers_get_half_of_the_connections() {
    let connections = table();
    let permit = |text: &str, is_known| connections.permit(&peer(text), is_known);
    let mut permits = fill(&connections, MAX_UNKNOWN, false);
    assert_eq!(
        permit("192.0.2.3:1", false).unwrap_err(),
        "too_many_unknown"
    );
    let _known = permit("192.0.2.3:1", true).unwrap();
    permits[0].set_known(true);
    let _unknown = permit("192.0.2.4:1", false).unwrap();
    permits.remove(0);
    assert_eq!(
        permit("192.0.2.5:1", false).unwrap_err(),
        "too_many_unknown"
    );
    permit("192.0.2.5:1", true).unwrap();
}

#[tokio::test]
async fn peer_that_comes_back_has_the_share_of_the_queue_that_it_had() {
    let (sender, mut queue) = queue::channel(64 << 10);
    let connections = ConnectionTable::new(sender);
    let take = |text: &str| connections.permit(&peer(text), true).unwrap();
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

#[test]
fn connected_peers_are_listed_with_received_and_dropped_frames() {
    let connections = table();
    let one = connections.permit(&peer("192.0.2.1:1"), true).unwrap();
    let two = connections.permit(&peer("192.0.2.1:2"), true).unwrap();
    let gone = connections.permit(&peer("192.0.2.2:1"), true).unwrap();
    let lost = Drops { queue: 1, share: 2 };
    one.count(10, Drops::default());
    two.count(5, lost);
    gone.count(1, lost);
    drop(gone);
    let view = PeerFacts {
        peer: "192.0.2.1".to_owned(),
        is_known: true,
        connections: 2,
        frames: 15,
        lost: 3,
    };
    assert_eq!(connections.view(), [view]);
    let _unknown = connections.permit(&peer("192.0.2.3:1"), false).unwrap();
    let known = connections.known_addresses();
    assert_eq!(known, [Some([192, 0, 2, 1].into())].into());
}

use bytes::BytesMut;
use ipnet::IpNet;
use proptest::prelude::*;
use tokio_util::codec::{Decoder, Encoder};

use super::{tcp::framing, *};
use crate::lookup::Server;

fn hold(listen: &str, upstream: &str) -> Hold {
    let upstreams: Vec<SocketAddr> = vec![upstream.parse().unwrap()];
    let listen = listen.parse().unwrap();
    let (held, _) = tokio::sync::mpsc::channel(1);
    let (index, clock) = (Arc::default(), runtime::clock::Clock::system());
    let queried: Servers = [Server::udp("192.0.2.53:53".parse().unwrap())].into();
    Hold {
        listen,
        upstreams,
        leader: Leader::sole(),
        gate: Gate::new(index, clock, held, HoldState::default()),
        networks: watch::channel(Some(Arc::default())).1,
        lookup_servers: Some(watch::channel(queried).1),
    }
}

#[test]
fn upstream_that_would_ask_again_is_refused() {
    let net = |text: &str| text.parse::<IpNet>().unwrap();
    let networks = Networks::new([
        (Purpose::Services, net("10.96.0.0/12")),
        (Purpose::Pods, net("10.244.0.0/16")),
        (Purpose::Nodes, net("192.0.2.7/32")),
    ]);
    for (listen, upstream, is_loop) in [
        ("0.0.0.0:5300", "10.96.0.10:53", true),
        ("0.0.0.0:5300", "10.244.3.4:53", true),
        ("0.0.0.0:5300", "127.0.0.1:5300", true),
        ("192.0.2.1:53", "192.0.2.1:53", true),
        ("192.0.2.1:53", "192.0.2.53:53", true),
        ("192.0.2.1:53", "192.0.2.1:54", false),
        ("0.0.0.0:5300", "192.0.2.7:53", false),
        ("0.0.0.0:5300", "127.0.0.53:53", false),
    ] {
        let refused = hold(listen, upstream).refuse_loops(&networks);
        assert_eq!(refused.is_err(), is_loop, "{listen} {upstream}");
    }
}

proptest! {
    #[test]
    fn frame_is_two_octets_of_length_and_a_message(messages: Vec<Vec<u8>>, rest in 0_usize..40) {
        let mut stream = BytesMut::new();
        for message in &messages {
            framing().encode(&**message, &mut stream).unwrap();
        }
        let by_hand = messages.iter().flat_map(|message| {
            let length = u16::try_from(message.len()).unwrap().to_be_bytes();
            [&length, &**message].concat()
        });
        prop_assert_eq!(&stream[..], &by_hand.collect::<Vec<u8>>()[..]);
        // What is cut off is no message.
        stream.truncate(stream.len().saturating_sub(rest));
        let mut found = Vec::new();
        let mut codec = framing();
        while let Some(message) = codec.decode(&mut stream).unwrap() {
            found.push(message.to_vec());
        }
        prop_assert_eq!(&found[..], &messages[..found.len()]);
        prop_assert!(rest > 0 || found.len() == messages.len());
    }
}

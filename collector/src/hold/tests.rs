use ipnet::IpNet;

use super::*;

fn hold(listen: &str, upstream: &str) -> Hold {
    let upstreams: Vec<SocketAddr> = vec![upstream.parse().unwrap()];
    let listen = listen.parse().unwrap();
    let (held, _) = tokio::sync::mpsc::channel(1);
    let (index, clock) = (Arc::default(), runtime::clock::Clock::system());
    let queried: Servers = ["192.0.2.53:53".parse().unwrap()].into();
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

use runtime::{
    cluster_cidrs::{Networks, Purpose},
    endpoints::{Conditions, Endpoints},
};
use tokio::sync::watch;

use super::*;

fn peer(text: &str) -> Peer {
    Peer::Address(text.parse().unwrap())
}

fn is_known(peer_acl: &PeerAcl, listener: &str, address: &str) -> bool {
    let listener = listener.parse().unwrap();
    peer_acl
        .standing(&listener, &peer(address), false)
        .is_known()
}

fn endpoints(addresses: &[&str]) -> Option<Endpoints> {
    let conditions = Conditions {
        ready: false,
        serving: false,
        terminating: true,
    };
    let addresses = addresses
        .iter()
        .map(|text| (text.parse().unwrap(), conditions));
    Some(Arc::new(addresses.collect()))
}

fn nodes(addresses: &[&str]) -> Option<Arc<Networks>> {
    let net = |text: &&str| (Purpose::Nodes, format!("{text}/32").parse().unwrap());
    Some(Arc::new(Networks::new(addresses.iter().map(net))))
}

fn found(addresses: &[&str]) -> watch::Receiver<Option<Arc<Networks>>> {
    watch::channel(nodes(addresses)).1
}

#[test]
fn without_a_rule_whoever_reaches_the_socket_may_speak() {
    let none = PeerAcl::default();
    assert!(is_known(&none, "tcp://0.0.0.0:6000", "192.0.2.1:5"));
    let process = Peer::Process {
        pid: None,
        uid: 1,
        gid: 1,
    };
    let strict = PeerAcl {
        allowed: Arc::new(["192.0.2.0/24".parse().unwrap()]),
        ..PeerAcl::default()
    };
    let unix = "unix:///x".parse().unwrap();
    assert!(strict.standing(&unix, &process, false).is_known());
    let open = PeerAcl {
        anyone: true,
        ..strict
    };
    assert!(is_known(&open, "tcp://0.0.0.0:6000", "198.51.100.1:5"));
}

#[test]
fn allowed_networks_may_speak_and_others_never_will() {
    let peer_acl = PeerAcl {
        allowed: Arc::new(["192.0.2.0/24".parse().unwrap()]),
        ..PeerAcl::default()
    };
    for listener in ["tcp://127.0.0.1:1", "tls://0.0.0.0:1", "tcp://[::]:1"] {
        assert!(is_known(&peer_acl, listener, "192.0.2.9:5"));
        assert!(is_known(&peer_acl, listener, "[::ffff:192.0.2.9]:5"));
        assert!(!is_known(&peer_acl, listener, "127.0.0.1:5"));
    }
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let standing = peer_acl.standing(&listener, &peer("127.0.0.1:5"), false);
    assert!(!standing.may_change());
}

#[tokio::test]
async fn endpoints_in_any_condition_may_speak_as_long_as_they_are_listed() {
    let (sender, receiver) = watch::channel(None);
    let peer_acl = PeerAcl {
        servers: Some(DnsServers::new(receiver, found(&[]))),
        ..PeerAcl::default()
    };
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let mut standing = peer_acl.standing(&listener, &peer("10.0.0.1:40000"), false);
    assert!(!standing.is_known() && standing.may_change());
    assert!(!standing.refresh());

    sender.send_replace(endpoints(&["10.0.0.1:53", "10.0.0.2:53"]));
    standing.changed().await;
    assert!(standing.refresh() && standing.is_known());
    sender.send_replace(endpoints(&["10.0.0.1:53"]));
    assert!(!standing.refresh() && standing.is_known());
    sender.send_replace(endpoints(&["10.0.0.2:53"]));
    assert!(standing.refresh() && !standing.is_known());
    assert!(is_known(&peer_acl, "tcp://0.0.0.0:1", "10.0.0.2:9"));
    // A process on this host may stream to a loopback address.
    assert!(is_known(&peer_acl, "tcp://127.0.0.1:1", "127.0.0.1:9"));
}

#[tokio::test]
async fn a_dns_server_on_the_host_network_takes_tls_and_the_secret_or_a_flag() {
    let on_host = watch::channel(endpoints(&["192.0.2.1:53"])).1;
    let servers = DnsServers::new(on_host, found(&["192.0.2.1", "192.0.2.2"]));
    let peer_acl = PeerAcl {
        servers: Some(servers.clone()),
        ..PeerAcl::default()
    };
    let standing = |peer_acl: &PeerAcl, listener: &str, has_secret| {
        let listener = listener.parse().unwrap();
        peer_acl.standing(&listener, &peer("192.0.2.1:5"), has_secret)
    };
    for (listener, has_secret, expected) in [
        ("tcp://0.0.0.0:1", false, false),
        // On `tcp://` the secret would be in clear text.
        ("tcp://0.0.0.0:1", true, false),
        ("tls://0.0.0.0:1", false, false),
        ("tls://0.0.0.0:1", true, true),
    ] {
        let mut standing = standing(&peer_acl, listener, has_secret);
        assert_eq!(
            standing.awaits_secret(),
            expected,
            "{listener} {has_secret}"
        );
        assert!(!standing.is_known() && standing.may_change());
        assert_eq!(standing.show_secret(), expected);
        assert_eq!(standing.is_known(), expected);
        assert_eq!(standing.is_refused_on_host_network(), !expected);
        assert!(!standing.awaits_secret());
        let refused = servers.refused();
        assert_eq!(refused.is_empty(), expected, "{listener} {has_secret}");
    }
    let insecure = PeerAcl {
        insecure_host_network: true,
        ..peer_acl.clone()
    };
    assert!(standing(&insecure, "tcp://0.0.0.0:1", false).is_known());
    let named = PeerAcl {
        allowed: Arc::new(["192.0.2.1/32".parse().unwrap()]),
        ..peer_acl.clone()
    };
    assert!(standing(&named, "tcp://0.0.0.0:1", false).is_known());
    // Another Node's address is no DNS server, and is not reported as one.
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let other = peer_acl.standing(&listener, &peer("192.0.2.2:5"), true);
    assert!(!other.is_known() && !other.is_refused_on_host_network());
    assert!(servers.refused().is_empty());
}

#[tokio::test]
async fn who_may_speak_follows_the_nodes() {
    let (sender, networks) = watch::channel(None);
    let listed = watch::channel(endpoints(&["192.0.2.1:53"])).1;
    let peer_acl = PeerAcl {
        servers: Some(DnsServers::new(listed, networks)),
        ..PeerAcl::default()
    };
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let mut standing = peer_acl.standing(&listener, &peer("192.0.2.1:5"), false);
    // While nothing is listed, the address may still turn out to be a DNS server's.
    assert!(!standing.is_known() && !standing.is_refused_on_host_network());
    let mut turn = async |networks| {
        sender.send_replace(networks);
        standing.changed().await;
        let has_changed = standing.refresh();
        let refused = standing.is_refused_on_host_network();
        (has_changed, standing.is_known(), refused)
    };
    let unreadable = Some(Arc::default());
    assert_eq!(turn(unreadable).await, (true, true, false));
    assert_eq!(turn(nodes(&["192.0.2.9"])).await, (false, true, false));
    assert_eq!(turn(nodes(&["192.0.2.1"])).await, (true, false, true));
    assert_eq!(turn(nodes(&[])).await, (true, true, false));
}

use tokio::sync::watch;

use super::*;
use crate::cluster::{
    endpoints::tests::listed,
    networks::{Networks, Purpose},
};
use crate::listen::connection::tests::secrets;

fn peer(text: &str) -> Peer {
    Peer::Address(text.parse().unwrap())
}

fn is_known(peer_acl: &PeerAcl, listener: &str, address: &str) -> bool {
    let listener = listener.parse().unwrap();
    peer_acl.status(&listener, &peer(address)).is_known()
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
    let process = Peer::Process(None);
    let strict = PeerAcl {
        allowed: Arc::new(["192.0.2.0/24".parse().unwrap()]),
        ..PeerAcl::default()
    };
    let unix = "unix:///x".parse().unwrap();
    assert!(strict.status(&unix, &process).is_known());
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
    let status = peer_acl.status(&listener, &peer("127.0.0.1:5"));
    assert!(!status.may_change());
}

#[tokio::test]
async fn listed_endpoints_in_any_condition_may_stream() {
    let (sender, receiver) = watch::channel(None);
    let peer_acl = PeerAcl {
        servers: Some(DnsServers::new(receiver, found(&[]))),
        ..PeerAcl::default()
    };
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let mut status = peer_acl.status(&listener, &peer("10.0.0.1:40000"));
    assert!(!status.is_known() && status.may_change());
    assert!(!status.refresh());

    sender.send_replace(listed(&["10.0.0.1:53", "10.0.0.2:53"], true));
    status.changed().await;
    assert!(status.refresh() && status.is_known());
    sender.send_replace(listed(&["10.0.0.1:53"], true));
    assert!(!status.refresh() && status.is_known());
    sender.send_replace(listed(&["10.0.0.2:53"], true));
    assert!(status.refresh() && !status.is_known());
    assert!(is_known(&peer_acl, "tcp://0.0.0.0:1", "10.0.0.2:9"));
    // A process on this host may stream to a loopback address.
    assert!(is_known(&peer_acl, "tcp://127.0.0.1:1", "127.0.0.1:9"));
}

#[tokio::test]
async fn dns_server_on_a_node_needs_secret_or_allowed_network() {
    let on_host = watch::channel(listed(&["192.0.2.1:53"], true)).1;
    let servers = DnsServers::new(on_host, found(&["192.0.2.1", "192.0.2.2"]));
    let peer_acl = PeerAcl {
        servers: Some(servers),
        ..PeerAcl::default()
    };
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let status = peer_acl.status(&listener, &peer("192.0.2.1:5"));
    assert!(!status.is_known() && status.is_refused_on_host_network());
    let (_folder, secrets, _reloading) = secrets();
    let secret = PeerAcl {
        secrets: Some(secrets),
        ..peer_acl.clone()
    };
    assert!(is_known(&secret, "tcp://0.0.0.0:1", "192.0.2.1:5"));
    let named = PeerAcl {
        allowed: Arc::new(["192.0.2.1/32".parse().unwrap()]),
        ..peer_acl
    };
    assert!(is_known(&named, "tcp://0.0.0.0:1", "192.0.2.1:5"));
    // Another Node's address is no DNS server.
    let other = secret.status(&listener, &peer("192.0.2.2:5"));
    assert!(!other.is_known() && !other.is_refused_on_host_network());
}

#[tokio::test]
async fn allowed_peers_follow_the_nodes() {
    let (sender, networks) = watch::channel(None);
    let listed = watch::channel(listed(&["192.0.2.1:53"], true)).1;
    let peer_acl = PeerAcl {
        servers: Some(DnsServers::new(listed, networks)),
        ..PeerAcl::default()
    };
    let listener = "tcp://0.0.0.0:1".parse().unwrap();
    let mut status = peer_acl.status(&listener, &peer("192.0.2.1:5"));
    // While nothing is listed, the address may still turn out to be a DNS server's.
    assert!(!status.is_known() && !status.is_refused_on_host_network());
    let mut turn = async |networks| {
        sender.send_replace(networks);
        status.changed().await;
        let has_changed = status.refresh();
        let refused = status.is_refused_on_host_network();
        (has_changed, status.is_known(), refused)
    };
    let unreadable = Some(Arc::default());
    assert_eq!(turn(unreadable).await, (true, true, false));
    assert_eq!(turn(nodes(&["192.0.2.9"])).await, (false, true, false));
    assert_eq!(turn(nodes(&["192.0.2.1"])).await, (true, false, true));
    assert_eq!(turn(nodes(&[])).await, (true, true, false));
}

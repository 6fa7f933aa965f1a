use serde_json::json;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: name.to_owned(),
    }
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn of(purpose: Purpose, networks: &[&str]) -> Found {
    networks.iter().map(|text| (purpose, net(text))).collect()
}

fn nothing() -> NetworksEvent {
    NetworksEvent::Synced(Vec::new())
}

fn unreadable() -> NetworksEvent {
    NetworksEvent::OutOfSync("forbidden".to_owned())
}

/// Applies a change, and returns the known purposes of the addresses.
fn purposes(
    reading: &mut Reading,
    source: NetworkSource,
    change: NetworksEvent,
) -> Option<Vec<&'static str>> {
    if reading.take(source, change) {
        reading.publish();
    }
    let found = reading.found.borrow();
    let networks = found.as_deref()?;
    let addresses = ["192.0.2.10", "10.96.0.1", "10.244.1.2", "203.0.113.1"];
    let purposes = addresses.map(|address| networks.purpose(address.parse().unwrap()));
    let purposes = purposes.into_iter().flatten();
    Some(purposes.map(Purpose::as_str).collect())
}

#[tokio::test]
async fn networks_are_known_once_each_source_reported() {
    let r = &mut Reading::of([]);
    // Most clusters have no CRD of these networks.
    assert_eq!(purposes(r, USER_DEFINED_NETWORKS, unreadable()), None);
    assert_eq!(purposes(r, API_SERVER, unreadable()), None);
    let all_services = NetworksEvent::Synced(vec![(
        key("kubernetes"),
        of(Purpose::Services, &["10.96.0.0/16"]),
    )]);
    assert_eq!(purposes(r, SERVICE_CIDRS, all_services), None);
    let all = purposes(r, NODES, nothing());
    assert_eq!(all, Some(vec!["service-cidr"]));
    let node = NetworksEvent::Applied((key("a"), of(Purpose::Pods, &["10.244.1.0/24"])));
    let all = Some(vec!["service-cidr", "pod-cidr"]);
    assert_eq!(purposes(r, NODES, node), all);
    assert_eq!(purposes(r, NODES, unreadable()), all);
    let slice = NetworksEvent::Applied((
        key("kubernetes"),
        of(Purpose::ApiServer, &["192.0.2.10/32"]),
    ));
    let with_server = Some(vec!["api-server", "service-cidr", "pod-cidr"]);
    assert_eq!(purposes(r, API_SERVER, slice), with_server);
    let gone = NetworksEvent::Deleted(key("kubernetes"));
    assert_eq!(
        purposes(r, SERVICE_CIDRS, gone),
        Some(vec!["api-server", "pod-cidr"])
    );
    let listed = purposes(r, NODES, nothing());
    assert_eq!(listed, Some(vec!["api-server"]));
}

#[tokio::test]
async fn whether_an_address_is_a_nodes_is_open_until_nodes_were_read() {
    let r = &mut Reading::of([]);
    let mut is_node = |source, change| {
        if r.take(source, change) {
            r.publish();
        }
        let address = "192.0.2.10".parse().unwrap();
        let found = r.found.borrow().clone();
        found.and_then(|networks| networks.is_node(address))
    };
    let other = "198.51.100.7/32";
    assert_eq!(is_node(USER_DEFINED_NETWORKS, nothing()), None);
    assert_eq!(is_node(SERVICE_CIDRS, nothing()), None);
    assert_eq!(is_node(NODES, unreadable()), None);
    let api_server = of(Purpose::ApiServer, &["192.0.2.10/32"]);
    let slice = NetworksEvent::Applied((key("kubernetes"), api_server));
    assert_eq!(is_node(API_SERVER, slice), None);
    let empty = nothing();
    assert_eq!(is_node(NODES, empty), Some(false), "there is none");
    let here = NetworksEvent::Applied((
        key("a"),
        of(Purpose::Nodes, &[other, "::ffff:192.0.2.10/128"]),
    ));
    assert_eq!(is_node(NODES, here), Some(true));
    assert_eq!(is_node(NODES, unreadable()), Some(true));
    let networks = r.found.borrow().clone().unwrap();
    let purpose = |text: &str| networks.purpose(text.parse().unwrap());
    // Most control planes are Nodes: the API server's address may never be allowed.
    assert_eq!(purpose("192.0.2.10"), Some(Purpose::ApiServer));
    assert_eq!(purpose("198.51.100.7"), Some(Purpose::Nodes));
    assert_eq!(networks.count(Purpose::Nodes), 2);
    assert_eq!(purpose("198.51.100.8"), None);
}

#[tokio::test(start_paused = true)]
async fn sources_that_say_nothing_are_not_waited_for() {
    let silent = futures_util::stream::pending();
    let changes = [changes(NODES, silent, NodeNetworks::networks)];
    let reading = Reading::of(changes);
    let (mut found, token) = (reading.found(), CancellationToken::new());
    let started = Instant::now();
    let task = tokio::spawn(reading.run(token.clone()));
    let known = found.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(known.as_deref(), Some(&Networks::default()));
    assert_eq!(started.elapsed(), READ_TIMEOUT);
    token.cancel();
    task.await.unwrap().unwrap();
}

#[test]
fn every_address_of_the_api_servers_slices_counts_ready_or_not() {
    let slice = serde_json::from_value(json!({
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["192.0.2.10", "x"] },
            { "addresses": ["192.0.2.11"], "conditions": { "ready": false } },
        ],
        "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }],
    }));
    let found = endpoints(&slice.unwrap());
    let expected = ["192.0.2.10/32", "192.0.2.11/32"].map(net);
    assert_eq!(found, expected.map(|net| (Purpose::ApiServer, net)));
}

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

fn nothing() -> Change {
    Change::All(BTreeMap::new())
}

fn unreadable() -> Change {
    Change::Unreadable("forbidden".to_owned())
}

/// Takes a change in, and tells what the addresses are for as far as that is known.
fn purposes(reading: &mut Reading, purpose: Purpose, change: Change) -> Option<Vec<&'static str>> {
    if reading.take(purpose, change) {
        reading.publish(false);
    }
    let found = reading.found.borrow();
    let networks = found.as_deref()?;
    let addresses = ["192.0.2.10", "10.96.0.1", "10.244.1.2", "203.0.113.1"];
    let purposes = addresses.map(|address| networks.purpose(address.parse().unwrap()));
    let purposes = purposes.into_iter().flatten();
    Some(purposes.map(Purpose::as_str).collect())
}

#[tokio::test]
async fn networks_are_known_once_each_source_has_spoken_and_hold_while_it_is_silent() {
    let r = &mut Reading::of(SelectAll::new());
    assert_eq!(purposes(r, Purpose::ApiServer, unreadable()), None);
    let services = Change::All([(key("kubernetes"), vec![net("10.96.0.0/16")])].into());
    assert_eq!(purposes(r, Purpose::Services, services), None);
    let all = purposes(r, Purpose::Pods, nothing());
    assert_eq!(all, Some(vec!["service-cidr"]));
    let node = Change::One(key("a"), vec![net("10.244.1.0/24")]);
    let all = Some(vec!["service-cidr", "pod-cidr"]);
    assert_eq!(purposes(r, Purpose::Pods, node), all);
    assert_eq!(purposes(r, Purpose::Pods, unreadable()), all);
    let slice = Change::One(key("kubernetes"), vec![net("192.0.2.10/32")]);
    let with_server = Some(vec!["api-server", "service-cidr", "pod-cidr"]);
    assert_eq!(purposes(r, Purpose::ApiServer, slice), with_server);
    let gone = Change::Gone(key("kubernetes"));
    assert_eq!(
        purposes(r, Purpose::Services, gone),
        Some(vec!["api-server", "pod-cidr"])
    );
    let listed = purposes(r, Purpose::Pods, nothing());
    assert_eq!(listed, Some(vec!["api-server"]));
}

#[tokio::test]
async fn what_is_known_of_an_object_holds_while_it_cannot_be_read() {
    let r = &mut Reading::of(SelectAll::new());
    let list = |names: &[(&str, &str)]| {
        let entry = |(name, text): &(&str, &str)| (key(name), vec![net(text)]);
        Change::All(names.iter().map(entry).collect())
    };
    purposes(r, Purpose::ApiServer, nothing());
    purposes(r, Purpose::Services, list(&[("a", "10.96.0.0/16")]));
    purposes(r, Purpose::Pods, list(&[("b", "10.244.1.0/24")]));
    let all = Some(vec!["service-cidr", "pod-cidr"]);
    let undecodable = Change::Undecodable([key("b")].into());
    assert_eq!(purposes(r, Purpose::Pods, undecodable), all);
    assert_eq!(purposes(r, Purpose::Pods, nothing()), all);
    let decodes_again = Change::Undecodable(BTreeSet::new());
    assert_eq!(purposes(r, Purpose::Pods, decodes_again), all);
    let left = purposes(r, Purpose::Pods, nothing());
    assert_eq!(left, Some(vec!["service-cidr"]));
}

#[tokio::test]
async fn what_changes_nothing_is_no_news() {
    let mut reading = Reading::of(SelectAll::new());
    for purpose in Purpose::ALL {
        assert!(reading.take(purpose, nothing()));
        assert!(!reading.take(purpose, nothing()));
        assert!(!reading.take(purpose, unreadable()));
    }
    let node = || Change::One(key("a"), vec![net("10.244.1.0/24")]);
    assert!(reading.take(Purpose::Pods, node()));
    assert!(!reading.take(Purpose::Pods, node()), "a heartbeat");
    assert!(!reading.take(Purpose::Pods, Change::Gone(key("b"))));
}

#[tokio::test(start_paused = true)]
async fn sources_that_say_nothing_are_not_waited_for() {
    let silent = futures_util::stream::pending();
    let changes = [changes(Purpose::Pods, silent, NodeNetworks::networks)];
    let reading = Reading::of(changes.into_iter().collect());
    let (mut found, token) = (reading.found(), CancellationToken::new());
    let started = Instant::now();
    let task = tokio::spawn(reading.run(token.clone()));
    let known = found.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(known.as_deref(), Some(&Networks::default()));
    assert_eq!(started.elapsed(), PATIENCE);
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
    assert_eq!(found, [net("192.0.2.10/32"), net("192.0.2.11/32")]);
}

#[test]
fn a_service_cidr_has_networks_of_both_families() {
    let object = |spec| {
        serde_json::from_value(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": { "name": "kubernetes" },
            "spec": spec,
        }))
        .unwrap()
    };
    let found = service_cidrs(&object(
        json!({ "cidrs": ["10.96.0.0/16", "fd00:96::/112"] }),
    ));
    assert_eq!(found, [net("10.96.0.0/16"), net("fd00:96::/112")]);
    assert_eq!(service_cidrs(&object(json!({}))), []);
}

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn answer(name: &str, client: &str) -> ClientAnswer {
    ClientAnswer {
        name: name.to_owned(),
        client: Some(client.parse().unwrap()),
        addresses: vec!["192.0.2.1".parse().unwrap()],
        guard: None,
    }
}

fn pod(name: &str, address: Option<&str>, phase: &str) -> Pod {
    let addresses = address.map(|ip| json!({ "ip": ip }));
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "containers": [] },
        "status": { "phase": phase, "podIPs": addresses.into_iter().collect::<Vec<_>>() },
    }))
    .unwrap()
}

/// The times of the answers: before and after the pods were created.
const BEFORE: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const AFTER: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn names(window: Window) -> Vec<(String, Vec<String>)> {
    let names = window.names().into_iter();
    let names = names.map(|it| (it.name, it.by.iter().map(ToString::to_string).collect()));
    names.collect()
}

#[test]
fn first_answers_of_a_new_pod_count_once_its_address_is_known() {
    let mut clients = Clients::of(Vec::new());
    clients.apply(Event::Synced(Vec::new()));
    for (at, name, client) in [
        (BEFORE, "of-an-earlier-pod.test", "10.0.0.5"),
        (AFTER, "first.test", "10.0.0.5"),
        (AFTER, "of-another.test", "10.0.0.6"),
    ] {
        clients.clock = Clock::manual(at);
        clients.add(answer(name, client));
    }
    clients.apply(Event::Applied(pod("a", None, "Pending")));
    assert_eq!(clients.waiting.len(), 3);
    let running = pod("a", Some("10.0.0.5"), "Running");
    clients.apply(Event::Applied(running));
    let expected = [("first.test".to_owned(), vec!["a".to_owned()])];
    assert_eq!(names(clients.window), expected);
}

#[test]
fn short_pod_that_is_first_seen_when_it_has_ended_counts() {
    let mut clients = Clients::of(Vec::new());
    clients.clock = Clock::manual(AFTER);
    clients.add(answer("job.test", "10.0.0.5"));
    let ended = pod("job", Some("10.0.0.5"), "Succeeded");
    clients.apply(Event::Applied(ended));
    assert!(clients.pods.is_empty(), "another pod may get its address");
    assert_eq!(names(clients.window).len(), 1);
}

#[test]
fn clients_by_network_count_and_others_do_not() {
    let mut clients = Clients::of(vec!["10.0.0.0/24".parse().unwrap()]);
    clients.add(answer("a.test", "10.0.0.5"));
    clients.add(answer("b.test", "10.0.1.5"));
    let expected = [("a.test".to_owned(), vec!["10.0.0.5".to_owned()])];
    assert_eq!(names(clients.window), expected);
}

#[test]
fn answers_to_a_node_are_found_and_said() {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "a", "annotations": { NODE_SUBNETS: "{\"default\":[\"10.128.0.0/24\",\"fd01::/64\"]}" } },
        "spec": { "podCIDRs": ["10.244.0.0/24"] },
        "status": { "addresses": [
            { "type": "InternalIP", "address": "172.18.0.2" }, { "type": "Hostname", "address": "a" },
        ] },
    }))
    .unwrap();
    let found: BTreeSet<String> = addresses(&node).iter().map(ToString::to_string).collect();
    let expected = [
        "10.128.0.1",
        "10.128.0.2",
        "10.244.0.1",
        "10.244.0.2",
        "172.18.0.2",
        "fd01::1",
        "fd01::2",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    let mut clients = Clients {
        nodes: Ok(addresses(&node).into_iter().collect()),
        ..Clients::of(Vec::new())
    };
    assert_eq!(clients.hidden(), None);
    clients.add(answer("a.test", "10.128.0.2"));
    let hidden = clients.hidden().unwrap();
    assert!(hidden.starts_with("1 answers went to addresses of Nodes"));
}

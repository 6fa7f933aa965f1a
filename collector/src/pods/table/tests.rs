use serde_json::{Value, json};

use super::*;

fn conf(spec: &Value) -> ResolvConf {
    let pod = json!({ "metadata": { "name": "p", "namespace": "team" }, "spec": spec });
    ResolvConf::of(&serde_json::from_value(pod).unwrap())
}

fn pod(name: &str) -> ObjectKey {
    format!("team/{name}").parse().unwrap()
}

fn asking(servers: &[&str]) -> ResolvConf {
    conf(&json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": servers } }))
}

fn table(trusted: &[&str]) -> Table {
    let mut table = Table::new(trusted.iter().map(|net| net.parse().unwrap()).collect());
    let about = ObjectReference::default();
    table.rules = Arc::new([("team".to_owned(), about)].into());
    table.cluster = Some(["10.96.0.10".parse().unwrap()].into());
    let pods = (Purpose::Pods, "10.244.0.0/16".parse().unwrap());
    let services = (Purpose::Services, "10.96.0.0/12".parse().unwrap());
    table.networks = Some(Arc::new(Networks::new([pods, services])));
    table
}

fn counts(table: &Table) -> [usize; 3] {
    let view = table.view();
    Whose::OTHERS.map(|whose| view.counts.get(&whose).copied().unwrap_or(0))
}

#[test]
fn servers_that_are_not_the_clusters_are_told_by_whose_they_are() {
    let mut table = table(&["192.0.2.0/24"]);
    table.set(&pod("plain"), Some(conf(&json!({}))));
    table.set(&pod("same"), Some(asking(&["10.96.0.10"])));
    table.set(&pod("local"), Some(asking(&["169.254.20.10"])));
    assert_eq!(counts(&table), [0; 3]);
    assert!(table.notes().is_empty());
    table.set(&pod("trusted"), Some(asking(&["10.96.0.10", "192.0.2.1"])));
    table.set(&pod("node"), Some(conf(&json!({ "dnsPolicy": "Default" }))));
    table.set(&pod("foreign"), Some(asking(&["192.0.2.1", "8.8.8.8"])));
    assert_eq!(counts(&table), [1, 1, 1]);
    let notes = table.notes();
    assert_eq!(notes.len(), 1);
    let note = &notes["team"].text;
    assert!(note.contains(": the node's, 8.8.8.8. The"), "{note}");
    table.set(&pod("foreign"), None);
    table.set(&pod("node"), Some(conf(&json!({}))));
    assert_eq!(counts(&table), [1, 0, 0]);
    assert!(table.notes().is_empty());
}

#[test]
fn only_trusted_servers_that_pods_use_are_asked_and_only_so_many() {
    let mut table = table(&["192.0.2.0/24"]);
    assert_eq!(table.trusted(), (vec![], 0));
    for i in 0..12 {
        let servers = [format!("192.0.2.{i}"), format!("198.51.100.{i}")];
        let servers = servers.each_ref().map(String::as_str);
        table.set(&pod(&format!("p{i}")), Some(asking(&servers)));
    }
    let (asked, more) = table.trusted();
    assert_eq!((asked.len(), more), (MAX_TRUSTED, 4));
    assert!(
        asked
            .iter()
            .all(|server| server.to_string().starts_with("192.0.2."))
    );
    table.forget(&Scope::Namespace("team".to_owned()));
    assert_eq!(table.trusted(), (vec![], 0));
}

#[test]
fn a_name_server_in_the_networks_of_pods_and_services_is_never_trusted() {
    let mut table = table(&["10.0.0.0/8"]);
    let servers = ["10.244.0.7", "10.96.0.99", "10.1.0.1"];
    table.set(&pod("a"), Some(asking(&servers)));
    assert_eq!(table.trusted(), (vec!["10.1.0.1".parse().unwrap()], 0));
    assert_eq!(counts(&table), [0, 0, 1]);
    table.networks = None;
    assert_eq!(table.trusted().0, Vec::<IpAddr>::new(), "not known yet");
}

#[test]
fn the_servers_that_most_namespaces_use_are_asked() {
    let mut table = table(&["192.0.2.0/24"]);
    let about = ObjectReference::default();
    let namespaces = ["team", "two", "three"].map(|name| (name.to_owned(), about.clone()));
    table.rules = Arc::new(namespaces.into());
    // One namespace uses many servers with low addresses.
    for last in 1..=20 {
        let server = format!("192.0.2.{last}");
        table.set(&pod(&format!("p{last}")), Some(asking(&[&server])));
    }
    for key in ["two/a", "two/b", "three/a"] {
        let key = key.parse().unwrap();
        table.set(&key, Some(asking(&["192.0.2.200"])));
    }
    let (asked, more) = table.trusted();
    assert_eq!((asked.len(), more), (MAX_TRUSTED, 21 - MAX_TRUSTED));
    assert_eq!(asked[0].to_string(), "192.0.2.200");
}

#[test]
fn nobody_is_called_foreign_before_the_clusters_servers_are_known() {
    let mut table = table(&[]);
    table.cluster = None;
    table.set(&pod("a"), Some(asking(&["10.96.0.10"])));
    assert_eq!(counts(&table), [0; 3]);
}

#[test]
fn a_pod_that_differs_is_told_of_as_soon_as_its_namespace_has_rules() {
    let mut table = table(&[]);
    let other = "other/a".parse().unwrap();
    table.set(&other, Some(asking(&["8.8.8.8"])));
    assert_eq!(counts(&table), [0; 3]);
    let team = table.rules["team"].clone();
    let rules = ["team", "other"].map(|name| (name.to_owned(), team.clone()));
    table.rules = Arc::new(rules.into());
    assert_eq!(counts(&table), [0, 0, 1]);
    table.rules = Arc::default();
    assert_eq!(counts(&table), [0; 3]);
}

#[test]
fn a_pod_that_stays_as_it_is_changes_nothing() {
    let mut table = table(&[]);
    assert!(!table.set(&pod("a"), Some(conf(&json!({})))));
    assert!(table.set(&pod("a"), Some(asking(&["8.8.8.8"]))));
    assert!(!table.set(&pod("a"), Some(asking(&["8.8.8.8"]))));
    assert!(table.set(&pod("a"), Some(asking(&["8.8.4.4"]))));
    assert!(table.set(&pod("a"), None));
    assert!(!table.set(&pod("a"), None));
}

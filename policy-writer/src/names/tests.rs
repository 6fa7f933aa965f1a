use serde_json::{Value, json};

use super::*;

const NAME: &str = "www.example.com.";

fn object(name: &str, uid: &str, status: Value) -> DnsNameResolver {
    serde_json::from_value(json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {"name": "one", "namespace": "names", "uid": uid},
        "spec": {"name": name},
        "status": status,
    }))
    .unwrap()
}

fn entry(name: &str, addresses: &[&str], reason: Option<&str>) -> Value {
    let time = "2026-01-31T12:00:00Z";
    let addresses = addresses
        .iter()
        .map(|ip| json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": time}));
    let conditions = reason.map(|reason| {
        json!({"type": "Degraded", "status": "True", "reason": reason, "message": "", "lastTransitionTime": time})
    });
    json!({
        "dnsName": name,
        "resolvedAddresses": addresses.collect::<Vec<_>>(),
        "conditions": conditions.into_iter().collect::<Vec<_>>(),
    })
}

fn status(entries: &[Value]) -> Value {
    json!({"resolvedNames": entries})
}

fn key() -> ObjectKey {
    ObjectKey {
        namespace: "names".to_owned(),
        name: "one".to_owned(),
    }
}

struct Subject(Names);

impl Subject {
    fn apply(&mut self, status: Value) -> bool {
        self.event(&Event::Applied(object(NAME, "u1", status)))
    }

    fn event(&mut self, event: &Event<DnsNameResolver>) -> bool {
        !self.0.apply(event).is_empty()
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        let name = self.0.get(&DnsName::parse(name).unwrap());
        name.into_iter()
            .flat_map(Name::addresses)
            .map(|it| it.to_string())
            .collect()
    }
}

fn subject() -> Subject {
    let mut subject = Subject(Names::new(Filter::default()));
    subject.apply(status(&[entry(NAME, &["192.0.2.1", "192.0.2.2"], None)]));
    assert_eq!(subject.addresses(NAME), ["192.0.2.1", "192.0.2.2"]);
    subject
}

#[test]
fn absence_takes_no_address_out() {
    let applied = |uid, status| Event::Applied(object(NAME, uid, status));
    let refused = entry(NAME, &[], Some("AnswerRefused"));
    let silent = [
        applied("u1", Value::Null),
        applied("u1", status(&[])),
        applied("u1", status(&[entry(NAME, &[], None)])),
        applied("u1", status(&[refused])),
        applied("u1", status(&[entry(NAME, &["no address"], None)])),
        applied("u2", Value::Null),
        Event::Deleted(key()),
        Event::Synced(Vec::new()),
        Event::Undecodable([key()].into()),
        Event::OutOfSync("gone".to_owned()),
    ];
    for event in &silent {
        let mut subject = subject();
        // Alone, and then all of them one after the other.
        for events in [std::slice::from_ref(event), &silent] {
            for event in events {
                subject.event(event);
            }
            let all = ["192.0.2.1", "192.0.2.2"];
            assert_eq!(subject.addresses(NAME), all, "{event:?}");
        }
        let back = object(NAME, "u3", status(&[entry(NAME, &["192.0.2.3"], None)]));
        assert!(subject.event(&Event::Applied(back)));
        assert_eq!(subject.addresses(NAME), ["192.0.2.3"], "{event:?}");
    }
}

#[test]
fn address_that_guards_refuse_is_an_answer() {
    let filter = Filter::new(vec!["10.128.0.0/14".parse().unwrap()])
        .deny(vec!["203.0.113.0/24".parse().unwrap()]);
    let mut subject = Subject(Names::new(filter));
    let refused = [
        "127.0.0.1",
        "169.254.169.254",
        "10.128.0.1",
        "203.0.113.1",
        "2001:db8::1",
    ];
    assert!(subject.apply(status(&[entry(NAME, &refused, None)])));
    assert_eq!(subject.addresses(NAME), [""; 0]);
    let name = DnsName::parse(NAME).unwrap();
    // It is an answer nevertheless.
    let known = subject.0.get(&name).unwrap();
    assert!(known.is_answered());
    let trouble = known.trouble().unwrap();
    assert_eq!(trouble.matches(", ").count(), 4, "{trouble}");
}

#[test]
fn wildcard_has_addresses_of_all_names_found() {
    let mut subject = subject();
    let found = status(&[
        entry("*.example.com.", &[], None),
        entry("a.example.com.", &["192.0.2.1"], None),
        entry("b.example.com.", &["192.0.2.1", "2001:db8::1"], None),
    ]);
    subject.event(&Event::Deleted(key()));
    subject.event(&Event::Applied(object("*.example.com.", "u2", found)));
    assert_eq!(
        subject.addresses("*.example.com"),
        ["192.0.2.1", "2001:db8::1"]
    );
    assert_eq!(subject.addresses(NAME), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn objects_of_one_name_count_together_until_one_is_deleted() {
    let mut subject = subject();
    let mut other = object(NAME, "u9", status(&[entry(NAME, &["192.0.2.9"], None)]));
    other.metadata.name = Some("other".to_owned());
    subject.event(&Event::Applied(other.clone()));
    assert_eq!(subject.addresses(NAME).len(), 3);
    subject.event(&Event::Deleted(ObjectKey::of(&other)));
    assert_eq!(subject.addresses(NAME).len(), 3);
    subject.apply(status(&[entry(NAME, &["192.0.2.2"], None)]));
    assert_eq!(subject.addresses(NAME), ["192.0.2.2"]);
}

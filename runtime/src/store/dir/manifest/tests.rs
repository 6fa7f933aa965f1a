use std::time::Duration;

use proptest::prelude::*;
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::json;

use super::*;
use crate::store::contract::status;

/// A file created this many milliseconds after the epoch.
fn born(inode: u64, at: u64) -> Fingerprint {
    Fingerprint::made_up(inode, Duration::from_millis(at))
}

const GOOD: &str = "\
apiVersion: network.openshift.io/v1alpha1
kind: DNSNameResolver
metadata:
  name: a
  namespace: ns
spec:
  name: www.example.com.
status:
  resolvedNames:
  - dnsName: www.example.com.
    resolvedAddresses:
    - ip: 192.0.2.1
      ttlSeconds: 30
      lastLookupTime: 2026-01-31T12:00:00Z
";

fn key() -> ObjectKey {
    ObjectKey {
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
    }
}

fn read(text: &str) -> Result<Manifest<DnsNameResolver>, Fault> {
    parse(text.as_bytes(), &key(), &born(1, 0))
}

/// Parses the good manifest with one replacement; returns the line and the reason of the fault.
#[track_caller]
fn fault_with(good: &str, bad: &str) -> (Option<u64>, String) {
    assert!(GOOD.contains(good));
    let fault = read(&GOOD.replace(good, bad)).unwrap_err();
    assert!(!fault.reason.contains('\n'), "{fault}");
    (fault.line, fault.reason)
}

#[test]
fn a_manifest_as_people_write_it_is_read() {
    let object = read(GOOD).unwrap().object;
    assert_eq!(ObjectKey::of(&object), key());
    assert_eq!(object.spec.name, "www.example.com.");
    let names = object.status.unwrap().resolved_names;
    assert_eq!(names[0].resolved_addresses[0].ip, "192.0.2.1");
}

#[test]
fn what_the_place_says_may_be_left_out() {
    for metadata in ["metadata: {}\n", "metadata:\n", ""] {
        let text = GOOD.replace("metadata:\n  name: a\n  namespace: ns\n", metadata);
        assert_eq!(ObjectKey::of(&read(&text).unwrap().object), key());
    }
}

#[test]
fn what_contradicts_the_place_is_at_fault() {
    assert_eq!(
        fault_with("v1alpha1", "v1").1,
        "`apiVersion` is \"network.openshift.io/v1\", not \"network.openshift.io/v1alpha1\" as its place says"
    );
    for (good, bad, field) in [
        ("DNSNameResolver", "Pod", "`kind` is \"Pod\""),
        ("  name: a", "  name: b", "`metadata/name` is \"b\""),
        (
            "namespace: ns",
            "namespace: other",
            "`metadata/namespace` is \"other\"",
        ),
        ("kind: DNSNameResolver\n", "", "`kind` is missing"),
    ] {
        let (_, reason) = fault_with(good, bad);
        assert!(reason.starts_with(field), "{reason}");
    }
}

#[test]
fn a_fault_has_a_line() {
    assert_eq!(fault_with("  name: www", "  name: ]www").0, Some(7));
    assert_eq!(fault_with("ttlSeconds: 30", "ttlSeconds: soon").0, Some(13));
    assert_eq!(
        fault_with("ttlSeconds: 30", "ttlSeconds: 3000000000").0,
        Some(13)
    );
    assert_eq!(
        fault_with("  name: www.example.com.", "  name: 5").0,
        Some(7)
    );
    assert_eq!(fault_with("  namespace: ns", "  name: a").0, Some(5));
    let (line, _) = fault_with("  namespace: ns", "  labels: { a: 1 }");
    assert_eq!(line, Some(5));
    let fault = parse::<DnsNameResolver>(b"a: b\nc: \xff\n", &key(), &born(1, 0)).unwrap_err();
    assert_eq!((fault.line, fault.reason.as_str()), (Some(2), "not UTF-8"));
}

#[test]
fn the_field_that_is_missing_is_the_one_that_is_said() {
    let (block, metadata) = (
        "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\n",
        "metadata: {name: a}\n",
    );
    let flow = "{apiVersion: network.openshift.io/v1alpha1, kind: DNSNameResolver}\n";
    for text in [
        block.to_owned(),
        format!("{block}{metadata}"),
        format!("{block}metadata:\n"),
        flow.to_owned(),
    ] {
        let reason = read(&text).unwrap_err().reason;
        assert!(reason.contains("missing field `spec`"), "{reason}");
    }
    let reason = read(&format!("{block}spec: {{}}\n")).unwrap_err().reason;
    assert!(reason.contains("missing field `name`"), "{reason}");
    // A fault in another place has its line.
    let fault = read(&format!("{block}spec:\n  name: [a]\n")).unwrap_err();
    assert_eq!(fault.line, Some(4), "{fault}");
}

#[test]
fn what_is_no_manifest_is_said_plainly() {
    for empty in ["", "\n", "# a comment\n", "---\n"] {
        assert_eq!(read(empty).unwrap_err().reason, "the file is empty");
    }
    for text in ["half", "[]", "5"] {
        assert!(read(text).unwrap_err().reason.contains("not an object"));
    }
    let fault = read(&format!("{GOOD}---\n{GOOD}")).unwrap_err();
    assert!(fault.reason.contains("more than one YAML document"));
}

#[test]
fn every_beginning_of_a_file_is_at_fault_or_an_object() {
    for end in 0..GOOD.len() {
        match read(&GOOD[..end]) {
            Ok(manifest) => assert_eq!(ObjectKey::of(&manifest.object), key()),
            Err(fault) => assert!(!fault.reason.is_empty()),
        }
    }
}

#[test]
fn a_bomb_is_at_fault() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let before = vec![format!("*a{}", i - 1); 10].join(", ");
        laughs += &format!("a{i}: &a{i} [{before}]\n");
    }
    read(&laughs).unwrap_err();
    read(&"[".repeat(100_000)).unwrap_err();
    read(&"{a: ".repeat(100_000)).unwrap_err();
}

#[test]
fn the_largest_status_that_fits_is_read() {
    let address = "    - ip: 2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff\n      lastLookupTime: 2026-01-31T12:00:00Z\n      ttlSeconds: 30\n";
    let text = GOOD.to_owned() + &address.repeat((MAX_SIZE - GOOD.len()) / address.len());
    let names = read(&text).unwrap().object.status.unwrap().resolved_names;
    assert!(names[0].resolved_addresses.len() > 30_000);
}

#[test]
fn the_version_follows_content_and_file() {
    let of_file = |text: &str, file| {
        let manifest = parse::<DnsNameResolver>(text.as_bytes(), &key(), &file).unwrap();
        manifest.object.metadata.resource_version.unwrap()
    };
    let of = |text: &str, inode| of_file(text, born(inode, 0));
    assert_eq!(of(GOOD, 7), of(GOOD, 7));
    assert_ne!(of(GOOD, 7), of(GOOD, 8));
    assert_ne!(
        of(GOOD, 7),
        of_file(GOOD, born(7, 1)),
        "an inode is used again"
    );
    assert_ne!(of(GOOD, 7), of(&format!("{GOOD}# edited\n"), 7));
    let claimed = GOOD.replace("  name: a\n", "  name: a\n  resourceVersion: '42'\n");
    assert_ne!(of(&claimed, 7), "42");
}

#[test]
fn a_status_write_keeps_what_the_type_does_not_know() {
    let text = GOOD
        .replace(
            "  name: a\n",
            "  name: a\n  resourceVersion: '42'\n  annotations: {x: y}\n  custom: 1\n",
        )
        .replace("spec:\n", "extra: [1, 2]\nspec:\n  future: true\n");
    let stored = read(&text).unwrap();
    let mut object = stored.object.clone();
    object.status = Some(status(&["other.example.com."]));
    object.metadata.annotations = None;
    let document = with_status(stored.document, &object).unwrap();
    assert_eq!(document["metadata"]["annotations"]["x"], "y");
    assert_eq!(document["metadata"]["custom"], 1);
    assert_eq!(document["metadata"].get("resourceVersion"), None);
    assert_eq!(document["extra"], json!([1, 2]));
    assert_eq!(document["spec"]["future"], true);
    let names = &document["status"]["resolvedNames"];
    assert_eq!(names[0]["dnsName"], "other.example.com.");
    object.status = None;
    let document = with_status(document, &object).unwrap();
    assert_eq!(document.get("status"), None);
}

#[test]
fn an_egress_firewall_is_read() {
    let text = "\
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
spec:
  egress:
  - type: Allow
    to: { dnsName: www.example.com }
    ports: [{ protocol: TCP, port: 443 }]
  - type: Deny
    to: { cidrSelector: 0.0.0.0/0 }
";
    let object = parse::<EgressFirewall>(text.as_bytes(), &key(), &born(1, 0))
        .unwrap()
        .object;
    assert_eq!(object.spec.egress.len(), 2);
    let refused = text.replace("type: Deny", "type: Drop");
    let fault = parse::<EgressFirewall>(refused.as_bytes(), &key(), &born(1, 0)).unwrap_err();
    assert_eq!(fault.line, Some(8), "{fault}");
}

fn any_document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[-\\[\\]{}:,#&*!|>'\"%@`~?=<. \\n\\t0-9a-eE+_xyn]{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[^\\x00]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(document in any_document()) {
        let text = emit(&document).unwrap();
        let read: Value = serde_saphyr::from_str_with_options(&text, options())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read, document, "{}", text);
    }

    #[test]
    fn no_text_is_more_than_at_fault(text in "[ \\n:\\-a-c{}\\[\\]&*!'\"#|>?,.]{0,60}") {
        let _read = read(&text);
    }
}

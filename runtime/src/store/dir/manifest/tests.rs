use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use proptest::prelude::*;
use proto::api::{DnsNameResolver, EgressFirewall};
use serde_json::json;

use super::*;
use crate::store::contract::status;

fn content(bytes: &[u8], fingerprint: u64) -> Content {
    Content {
        bytes: bytes.to_owned(),
        permissions: Permissions::from_mode(0o644),
        fingerprint,
    }
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

fn read(text: &str) -> Result<Manifest<DnsNameResolver>, String> {
    parse(content(text.as_bytes(), 1), &key()).map_err(|error| format!("{error:#}"))
}

/// The fault of the good manifest with one replacement.
#[track_caller]
fn fault_with(good: &str, bad: &str) -> String {
    assert!(GOOD.contains(good));
    let fault = read(&GOOD.replace(good, bad)).err().unwrap();
    assert!(!fault.contains('\n'), "{fault}");
    fault
}

fn warning_of(text: &str) -> Option<String> {
    let content = content(text.as_bytes(), 1);
    parse::<EgressFirewall>(content, &key()).unwrap().warning
}

#[test]
fn manifest_as_people_write_it_is_read() {
    let object = read(GOOD).unwrap().object;
    assert_eq!(ObjectKey::of(&object), key());
    assert_eq!(object.spec.name, "www.example.com.");
    let names = object.status.unwrap().resolved_names;
    assert_eq!(names[0].resolved_addresses[0].ip, "192.0.2.1");
}

#[test]
fn metadata_that_the_path_gives_may_be_left_out() {
    for metadata in ["metadata: {}\n", "metadata:\n", ""] {
        let text = GOOD.replace("metadata:\n  name: a\n  namespace: ns\n", metadata);
        assert_eq!(ObjectKey::of(&read(&text).unwrap().object), key());
    }
}

#[test]
fn manifest_that_contradicts_its_place_is_at_fault() {
    assert_eq!(
        fault_with("v1alpha1", "v1"),
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
        ("kind: DNSNameResolver\n", "", "`kind` is null"),
    ] {
        let fault = fault_with(good, bad);
        assert!(fault.starts_with(field), "{fault}");
    }
}

#[test]
fn fault_of_a_manifest_has_its_line() {
    for (good, bad, line) in [
        ("  name: www", "  name: ]www", 7),
        ("ttlSeconds: 30", "ttlSeconds: soon", 13),
        ("ttlSeconds: 30", "ttlSeconds: 3000000000", 13),
        ("  name: www.example.com.", "  name: 5", 7),
        ("  namespace: ns", "  name: a", 5),
        ("  namespace: ns", "  labels: { a: 1 }", 5),
    ] {
        let fault = fault_with(good, bad);
        assert!(fault.contains(&format!(" at line {line}, ")), "{fault}");
    }
}

#[test]
fn manifest_without_a_field_is_at_fault_for_that_field() {
    let (block, metadata) = (
        "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\n",
        "metadata: {name: a}\n",
    );
    for text in [
        block.to_owned(),
        format!("{block}{metadata}"),
        format!("{block}metadata:\n"),
    ] {
        let fault = read(&text).err().unwrap();
        assert!(fault.contains("missing field `spec`"), "{fault}");
    }
    let fault = read(&format!("{block}spec: {{}}\n")).err().unwrap();
    assert!(fault.contains("missing field `name`"), "{fault}");
}

#[test]
fn text_that_is_no_manifest_is_at_fault() {
    for empty in ["", "\n", "# a comment\n", "---\n"] {
        assert_eq!(read(empty).err().unwrap(), "the file is empty");
    }
    for text in ["half", "[]", "5"] {
        let fault = read(text).err().unwrap();
        assert!(fault.contains("`apiVersion` is null"), "{fault}");
    }
    let fault = read(&format!("{GOOD}---\n{GOOD}")).err().unwrap();
    assert!(fault.contains("single YAML document"), "{fault}");
    let fault = parse::<DnsNameResolver>(content(b"a: \xff\n", 1), &key()).err();
    assert!(fault.unwrap().to_string().contains("not UTF-8"));
}

#[test]
fn every_beginning_of_a_file_is_at_fault_or_an_object() {
    for end in 0..GOOD.len() {
        match read(&GOOD[..end]) {
            Ok(manifest) => assert_eq!(ObjectKey::of(&manifest.object), key()),
            Err(fault) => assert!(!fault.is_empty()),
        }
    }
}

#[test]
fn bomb_is_at_fault() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let before = vec![format!("*a{}", i - 1); 10].join(", ");
        laughs += &format!("a{i}: &a{i} [{before}]\n");
    }
    for bomb in [laughs, "[".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(read(&bomb).is_err());
    }
}

#[test]
fn largest_status_that_fits_is_read() {
    let address = "    - ip: 2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff\n      lastLookupTime: 2026-01-31T12:00:00Z\n      ttlSeconds: 30\n";
    let text = GOOD.to_owned() + &address.repeat((MAX_SIZE - GOOD.len()) / address.len());
    let names = read(&text).unwrap().object.status.unwrap().resolved_names;
    assert!(names[0].resolved_addresses.len() > 30_000);
}

#[test]
fn version_follows_content_and_file() {
    let of = |text: &str, fingerprint| {
        let manifest = parse::<DnsNameResolver>(content(text.as_bytes(), fingerprint), &key());
        manifest.unwrap().object.metadata.resource_version.unwrap()
    };
    assert_eq!(of(GOOD, 7), of(GOOD, 7));
    assert_ne!(of(GOOD, 7), of(GOOD, 8));
    assert_ne!(of(GOOD, 7), of(&format!("{GOOD}# edited\n"), 7));
    let claimed = GOOD.replace("  name: a\n", "  name: a\n  resourceVersion: '42'\n");
    assert_ne!(of(&claimed, 7), "42");
}

#[test]
fn status_write_keeps_what_the_type_does_not_know() {
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

const FIREWALL: &str = "\
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
spec:
  egress:
  - type: Allow
    to: { dnsName: www.example.com }
    ports: [{ protocol: TCP, port: 443 }]
  - type: Allow
    to: { nodeSelector: { matchLabels: { a: b } } }
  - type: Deny
    to: { cidrSelector: 0.0.0.0/0 }
status: { status: done, other: 1 }
";

#[test]
fn egress_firewall_is_read_without_a_warning() {
    let firewall = content(FIREWALL.as_bytes(), 1);
    let firewall = parse::<EgressFirewall>(firewall, &key()).unwrap();
    assert_eq!(firewall.object.spec.egress.len(), 3);
    assert_eq!(firewall.warning, None);
    let refused = FIREWALL.replace("type: Deny", "type: Drop") + "metadata: {}\n";
    let fault = parse::<EgressFirewall>(content(refused.as_bytes(), 1), &key()).err();
    let fault = fault.unwrap().to_string();
    assert!(fault.contains(" at line 10, "), "{fault}");
}

#[test]
fn rule_without_a_destination_is_warned_of_with_its_line() {
    for bad in ["to: { cidrselector: 0.0.0.0/0 }", "to: {}"] {
        let text = FIREWALL.replace("to: { cidrSelector: 0.0.0.0/0 }", bad);
        let warning = warning_of(&text).unwrap();
        let expected = "a rule without a destination, such as `dnsName`, at line 11";
        assert_eq!(warning, expected);
    }
    let block = "to:\n      dnsname: www.example.com";
    let warning = warning_of(&FIREWALL.replace("to: { dnsName: www.example.com }", block));
    assert!(warning.unwrap().ends_with(" at line 7"));
}

#[test]
fn unknown_field_is_warned_of_with_its_line() {
    let expected = |line, field| Some(format!("unknown field `{field}`{line} has no effect"));
    let text = FIREWALL.replace("ports:", "prots:");
    assert_eq!(
        warning_of(&text),
        expected(" at line 7", "spec.egress.0.prots")
    );
    let text = FIREWALL.replace("matchLabels", "matchlabels");
    let field = "spec.egress.1.to.nodeSelector.matchlabels";
    assert_eq!(warning_of(&text), expected(" at line 9", field));
    let text = format!("{FIREWALL}metadata: {{ label: x }}\n");
    assert_eq!(warning_of(&text), expected(" at line 13", "metadata.label"));
    // Another line has the word, too.
    let text = format!("{FIREWALL}metadata: {{ dnsName: x }}\n");
    assert_eq!(warning_of(&text), expected("", "metadata.dnsName"));
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
    fn document_that_is_written_is_read_back(document in any_document()) {
        let text = serde_saphyr::to_string(&document).unwrap();
        let read: Value = serde_saphyr::from_str_with_options(&text, options())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read, document, "{}", text);
    }

    #[test]
    fn text_of_any_kind_is_at_most_at_fault(text in "[ \\n:\\-a-c{}\\[\\]&*!'\"#|>?,.]{0,60}") {
        let _read = read(&text);
    }
}

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use proptest::prelude::*;
use proto::api::{DnsNameResolver, EgressFirewall};

use super::*;

fn content(text: &str) -> Content {
    Content {
        text: text.to_owned(),
        permissions: Permissions::from_mode(0o644),
        fingerprint: 1,
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

/// A file in the object's own place.
fn read(text: &str) -> Result<DnsNameResolver, String> {
    let mut manifest = Manifest::parse(&content(text), Some(&key()));
    let object = manifest.objects.remove(&key()).flatten();
    object.ok_or_else(|| manifest.faults.join("; "))
}

/// A file elsewhere.
fn elsewhere<K: Kind>(text: &str) -> Manifest<K> {
    Manifest::parse(&content(text), None)
}

fn names<K>(manifest: &Manifest<K>) -> Vec<String> {
    let objects = manifest.objects.iter().filter(|(_, it)| it.is_some());
    objects.map(|(key, _)| key.to_string()).collect()
}

/// The fault of the good manifest with one replacement.
#[track_caller]
fn fault_with(good: &str, bad: &str) -> String {
    assert!(GOOD.contains(good));
    let fault = read(&GOOD.replace(good, bad)).unwrap_err();
    assert!(!fault.contains('\n'), "{fault}");
    fault
}

#[test]
fn metadata_may_be_left_out_in_its_own_place_only() {
    for metadata in ["metadata: {}\n", "metadata:\n", ""] {
        let text = GOOD.replace("metadata:\n  name: a\n  namespace: ns\n", metadata);
        assert_eq!(ObjectKey::of(&read(&text).unwrap()), key());
        let manifest = elsewhere::<DnsNameResolver>(&format!("---\n{text}"));
        assert!(manifest.objects.is_empty() && !manifest.is_whole);
        let expected =
            "line 2: `metadata` does not name an object: the namespace is not a DNS label";
        assert_eq!(manifest.faults, [expected]);
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
        let has_line = |fault: &str, line| {
            [',', ':']
                .map(|end| format!("line {line}{end}"))
                .iter()
                .any(|it| fault.contains(it))
        };
        assert!(has_line(&fault, line), "{fault}");
        let text = format!(
            "a: 1\nkind: X\napiVersion: v1\n---\n{}",
            GOOD.replace(good, bad)
        );
        let fault = elsewhere::<DnsNameResolver>(&text).faults.join("; ");
        // Elsewhere the missing namespace is a fault of its own.
        assert!(
            has_line(&fault, line + 4) || fault.contains("does not name an object"),
            "{fault}"
        );
    }
}

#[test]
fn documents_and_lists_have_objects_beside_other_kinds() {
    let of = |name: &str| GOOD.replace("name: a", &format!("name: {name}"));
    let pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{dnsname: x}]}\n";
    let other_group = of("x").replace("network.openshift.io", "kubeovn.io");
    let indented: String = of("c").lines().map(|line| format!("  {line}\n")).collect();
    let list = format!(
        "apiVersion: v1\nkind: List\nmetadata: {{resourceVersion: ''}}\nitems:\n- {}",
        indented.trim_start()
    );
    let text = [pod, &of("a"), &other_group, &of("b"), &list, pod].join("---\n");
    let manifest = elsewhere::<DnsNameResolver>(&text);
    assert_eq!(names(&manifest), ["ns/a", "ns/b", "ns/c"]);
    assert!(manifest.faults.is_empty(), "{:?}", manifest.faults);
    assert!(manifest.is_whole && manifest.document.is_none());
    assert!(elsewhere::<DnsNameResolver>(GOOD).document.is_some());
    assert!(elsewhere::<DnsNameResolver>(&list).document.is_none());
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

fn firewall(text: &str) -> Manifest<EgressFirewall> {
    Manifest::parse(&content(text), Some(&key()))
}

#[test]
fn rule_without_a_destination_is_reported_with_its_line() {
    let text = FIREWALL.replace("to: { cidrSelector: 0.0.0.0/0 }", "to: {}");
    let manifest = firewall(&text);
    assert_eq!(manifest.objects.len(), 1);
    let expected = "line 11: a rule without a destination, such as `dnsName`";
    assert_eq!(manifest.faults, [expected]);
    let block = "to:\n      dnsname: www.example.com";
    let manifest = firewall(&FIREWALL.replace("to: { dnsName: www.example.com }", block));
    let expected = [
        "line 6: a rule without a destination, such as `dnsName`",
        "line 7: unknown field `spec.egress.0.to.dnsname` has no effect",
    ];
    assert_eq!(manifest.faults, expected);
}

#[test]
fn unknown_field_is_reported_with_its_line() {
    for (good, bad, line, field) in [
        ("ports:", "prots:", 7, "spec.egress.0.prots"),
        (
            "matchLabels",
            "matchlabels",
            9,
            "spec.egress.1.to.nodeSelector.matchlabels",
        ),
        (
            "status:",
            "metadata: { dnsName: x }\nstatus:",
            12,
            "metadata.dnsName",
        ),
    ] {
        let manifest = firewall(&FIREWALL.replacen(good, bad, 1));
        assert_eq!(manifest.objects.len(), 1);
        let expected = format!("line {line}: unknown field `{field}` has no effect");
        assert_eq!(manifest.faults, [expected]);
    }
}

proptest! {
    #[test]
    fn text_of_any_kind_is_at_most_at_fault(text in "[ \\n:\\-a-c{}\\[\\]&*!'\"#|>?,.]{0,60}") {
        let _read = read(&text);
    }
}

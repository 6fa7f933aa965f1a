use serde_json::json;

use super::*;

fn resolver(yaml: &str) -> DnsNameResolver {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn a_status_is_read_whatever_else_stands_in_it_and_written_as_the_api_wants_it() {
    let object = resolver(
        r#"
        apiVersion: network.openshift.io/v1alpha1
        kind: DNSNameResolver
        metadata: {name: x}
        spec: {name: www.example.com., later: true}
        status:
          later: [1]
          resolvedNames:
          - dnsName: www.example.com.
            resolvedAddresses:
            - {ip: 192.0.2.1, ttlSeconds: 30, lastLookupTime: "2026-08-01T12:00:00.999Z", later: 1}
            - {ip: "2001:db8::1", ttlSeconds: 0, lastLookupTime: "2026-08-01T14:00:00.25+02:00"}
            conditions: []
            resolutionFailures: 0
          - {dnsName: a.example.com., resolvedAddresses: [], resolutionFailures: 7}
        "#,
    );
    // Go writes whole seconds, and no defaults but for the addresses, which are required.
    let time = "2026-08-01T12:00:00Z";
    let written = json!({"resolvedNames": [
        {
            "dnsName": "www.example.com.",
            "resolvedAddresses": [
                {"ip": "192.0.2.1", "ttlSeconds": 30, "lastLookupTime": time},
                {"ip": "2001:db8::1", "ttlSeconds": 0, "lastLookupTime": time},
            ],
        },
        {"dnsName": "a.example.com.", "resolvedAddresses": [], "resolutionFailures": 7},
    ]});
    assert_eq!(serde_json::to_value(object.status).unwrap(), written);
    let again: DnsNameResolverStatus = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    let empty = resolver("{metadata: {}, spec: {name: a.b.}, status: {}}");
    assert_eq!(serde_json::to_value(empty.status).unwrap(), json!({}));
}

#[test]
fn a_refused_answer_is_no_failure_of_a_name() {
    let entry = |reason: &str, status: &str| -> ResolvedName {
        let condition = json!({
            "type": DEGRADED, "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-08-01T12:00:00Z",
        });
        let entry = json!({"dnsName": "a.b.", "resolvedAddresses": [], "conditions": [condition]});
        serde_json::from_value(entry).unwrap()
    };
    let said = |it: ResolvedName| {
        let owned = |it: Option<&str>| it.map(str::to_owned);
        (owned(it.failure()), owned(it.refused()))
    };
    assert_eq!(
        said(entry("NXDOMAIN", "True")),
        (Some("NXDOMAIN".into()), None)
    );
    assert_eq!(
        said(entry(ANSWER_REFUSED, "True")),
        (None, Some("m".into()))
    );
    assert_eq!(said(entry("NXDOMAIN", "False")), (None, None));
}

#[test]
fn a_rule_type_that_the_loose_pattern_lets_through_denies() {
    let rule_type = |text: &str| serde_json::from_value::<RuleType>(json!(text));
    assert_eq!(rule_type("Allow").unwrap(), RuleType::Allow);
    for text in ["Deny", "Allowed", "NoDeny"] {
        assert_eq!(rule_type(text).unwrap(), RuleType::Deny, "{text}");
    }
    for text in ["allow", "deny", "Denied", "NoAllow", ""] {
        let error = rule_type(text).unwrap_err();
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
}

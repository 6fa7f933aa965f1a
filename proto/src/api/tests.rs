use serde_json::json;

use super::*;

fn resolver(yaml: &str) -> DnsNameResolver {
    serde_saphyr::from_str(yaml).unwrap()
}

fn firewall(yaml: &str) -> EgressFirewall {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn a_status_is_read_whatever_else_stands_in_it() {
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
            - {ip: 192.0.2.1, ttlSeconds: 30, lastLookupTime: "2026-08-01T12:00:00Z", later: 1}
            - {ip: "2001:db8::1", ttlSeconds: 0, lastLookupTime: "2026-08-01T14:00:00.25+02:00"}
            conditions:
            - type: Degraded
              status: "False"
              reason: NOERROR
              message: ""
              lastTransitionTime: "2026-08-01T12:00:00Z"
          - {dnsName: a.example.com., resolvedAddresses: [], resolutionFailures: 7}
        "#,
    );
    let names = object.status.unwrap().resolved_names;
    assert_eq!(names.len(), 2);
    assert_eq!(names[0].resolution_failures, 0);
    assert_eq!(names[0].conditions[0].type_, DEGRADED);
    let [a, b] = &names[0].resolved_addresses[..] else {
        panic!("two addresses")
    };
    let second = |address: &ResolvedAddress| address.last_lookup_time.0.as_second();
    assert_eq!(second(a), second(b));
    assert_eq!(names[1].resolution_failures, 7);
    assert!(names[1].conditions.is_empty());
    let empty = resolver("{metadata: {}, spec: {name: a.b.}, status: {}}");
    assert_eq!(empty.status, Some(DnsNameResolverStatus::default()));
}

#[test]
fn a_status_is_written_as_the_api_wants_it() {
    let status: DnsNameResolverStatus = serde_json::from_value(json!({
        "resolvedNames": [{
            "dnsName": "www.example.com.",
            "resolvedAddresses": [{
                "ip": "192.0.2.1",
                "ttlSeconds": 30,
                "lastLookupTime": "2026-08-01T12:00:00.999+00:00",
            }],
            "resolutionFailures": 0,
            "conditions": [],
        }, {
            "dnsName": "a.example.com.",
            "resolvedAddresses": [],
            "resolutionFailures": 2,
        }],
    }))
    .unwrap();
    let written = json!({
        "resolvedNames": [{
            "dnsName": "www.example.com.",
            // Go writes whole seconds.
            "resolvedAddresses": [{
                "ip": "192.0.2.1",
                "ttlSeconds": 30,
                "lastLookupTime": "2026-08-01T12:00:00Z",
            }],
        }, {
            "dnsName": "a.example.com.",
            // Required, even when it is empty.
            "resolvedAddresses": [],
            "resolutionFailures": 2,
        }],
    });
    assert_eq!(serde_json::to_value(&status).unwrap(), written);
    let again: DnsNameResolverStatus = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    let empty = serde_json::to_value(DnsNameResolverStatus::default()).unwrap();
    assert_eq!(empty, json!({}));
}

#[test]
fn every_kind_of_rule_is_read() {
    let object = firewall(
        r#"
        apiVersion: k8s.ovn.org/v1
        kind: EgressFirewall
        metadata: {name: default, namespace: team-a}
        spec:
          later: 1
          egress:
          - {type: Allow, to: {dnsName: WWW.Example.COM}, ports: [{protocol: TCP, port: 443, later: 1}]}
          - {type: Allow, to: {dnsName: "*.example.com."}, ports: []}
          - {type: Allow, to: {nodeSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}}}
          - {type: Allow, to: {nodeSelector: {}}}
          - {type: Deny, to: {cidrSelector: 0.0.0.0/0, later: 1}}
        status: {status: EgressFirewall Rules applied, messages: ["zone-a: applied"]}
        "#,
    );
    let rules = &object.spec.egress;
    assert_eq!(rules[0].to.dns_name.as_deref(), Some("WWW.Example.COM"));
    assert_eq!(
        rules[0].ports,
        [EgressFirewallPort {
            protocol: "TCP".to_owned(),
            port: 443
        }]
    );
    assert_eq!(rules[1].to.dns_name.as_deref(), Some("*.example.com."));
    assert!(rules[2].to.node_selector.is_some());
    assert!(rules[3].to.node_selector.is_some());
    assert_eq!(rules[4].rule_type, RuleType::Deny);
    assert_eq!(rules[4].to.cidr_selector.as_deref(), Some("0.0.0.0/0"));
    assert_eq!(object.status.unwrap().messages, ["zone-a: applied"]);
    let empty = firewall("{metadata: {name: default}, spec: {egress: []}, status: {}}");
    assert_eq!(empty.spec.egress, []);
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

use serde_json::{Value, json};

use super::*;

fn pod(namespace: &str, app: &str, ip: &str) -> Pod {
    let pod = json!({
        "metadata": { "namespace": namespace, "name": app, "labels": { "app": app } },
        "spec": { "containers": [{
            "name": app,
            "ports": [
                { "name": "dnstap-tcp", "containerPort": 6000 },
                { "name": "admin", "containerPort": 9090 },
            ],
        }]},
        "status": { "podIPs": [{ "ip": ip }] },
    });
    serde_json::from_value(pod).unwrap()
}

/// Whether a policy of the DNS servers' namespace with these rules drops the stream to a collector.
fn drops_egress(spec: Value) -> bool {
    let policy = json!({ "metadata": { "name": "p", "namespace": "dns" }, "spec": spec });
    let policy: NetworkPolicy = serde_json::from_value(policy).unwrap();
    let (dns, collector) = (
        pod("dns", "coredns", "10.0.0.2"),
        pod("chart", "collector", "10.0.0.3"),
    );
    let labels = BTreeMap::from([("name".to_owned(), "chart".to_owned())]);
    let side = |pod, namespace: &str, labels| Side {
        pod,
        namespace: namespace.to_owned(),
        labels,
    };
    let policies = [("dns".to_owned(), Ok(vec![policy]))];
    let own = side(&dns, "dns", None);
    let other = side(&collector, "chart", Some(&labels));
    drops(&policies, Direction::Egress, &own, &other).is_some()
}

#[test]
fn a_policy_drops_the_stream_if_no_rule_of_it_admits_the_stream() {
    let egress =
        |rules: Value| json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": rules });
    let to = |peer: Value| egress(json!([{ "to": [peer] }]));
    let chart = json!({ "matchLabels": { "name": "chart" } });
    let port = |port: Value| egress(json!([{ "ports": [{ "port": port, "protocol": "TCP" }] }]));
    for (spec, dropped) in [
        (egress(json!([])), true),
        (egress(json!([{}])), false),
        (
            json!({ "podSelector": {}, "policyTypes": ["Ingress"] }),
            false,
        ),
        (json!({ "podSelector": {} }), false),
        (
            json!({ "podSelector": {}, "egress": [{ "to": [{ "podSelector": {} }] }] }),
            true,
        ),
        (
            json!({ "podSelector": { "matchLabels": { "app": "x" } }, "policyTypes": ["Egress"] }),
            false,
        ),
        (to(json!({ "ipBlock": { "cidr": "10.0.0.0/24" } })), false),
        (
            to(json!({ "ipBlock": { "cidr": "10.0.0.0/24", "except": ["10.0.0.3/32"] } })),
            true,
        ),
        (to(json!({ "namespaceSelector": chart })), false),
        (
            to(
                json!({ "namespaceSelector": chart, "podSelector": { "matchLabels": { "app": "y" } } }),
            ),
            true,
        ),
        (
            to(
                json!({ "namespaceSelector": { "matchExpressions": [{ "key": "name", "operator": "NotIn", "values": ["chart"] }] } }),
            ),
            true,
        ),
        (
            to(
                json!({ "namespaceSelector": { "matchExpressions": [{ "key": "name", "operator": "Exists" }] } }),
            ),
            false,
        ),
        (to(json!({ "podSelector": {} })), true),
        (port(json!(6000)), false),
        (port(json!("dnstap-tcp")), false),
        (port(json!(53)), true),
        (port(json!("admin")), true),
        (
            egress(json!([{ "ports": [{ "port": 5000, "endPort": 7000 }] }])),
            false,
        ),
    ] {
        assert_eq!(drops_egress(spec.clone()), dropped, "{spec}");
    }
}

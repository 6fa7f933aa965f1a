use proptest::prelude::*;
use serde_json::json;

use super::*;

fn addresses() -> impl Strategy<Value = BTreeSet<IpAddr>> {
    proptest::collection::btree_set(any::<IpAddr>(), 0..20)
}

fn peers() -> impl Strategy<Value = Option<DnsPeers>> {
    let network = (any::<[u8; 4]>(), 0_u8..=32)
        .prop_map(|(octets, length)| IpNet::new(octets.into(), length).unwrap());
    let networks = proptest::collection::vec(network, 0..3);
    let pods = proptest::option::of(Just((
        "kube-system".to_owned(),
        ("k8s-app".to_owned(), "kube-dns".to_owned()),
    )));
    proptest::option::of((pods, networks).prop_map(|(pods, networks)| DnsPeers { pods, networks }))
}

proptest! {
    /// A rule with an empty or missing `to` allows everything.
    #[test]
    fn no_rule_is_without_a_peer_and_each_address_stands_once(
        wanted in addresses(), dns in peers()
    ) {
        let spec = policy(&wanted, dns.as_ref());
        prop_assert!(!opens_everything(&spec));
        prop_assert_eq!(spec.policy_types.clone(), Some(vec!["Egress".to_owned()]));
        prop_assert_eq!(spec.pod_selector.clone(), Some(LabelSelector::default()));
        let rules = spec.egress.clone().unwrap();
        for rule in &rules {
            for peer in rule.to.iter().flatten() {
                prop_assert!(*peer != NetworkPolicyPeer::default());
            }
        }
        let spec = policy(&wanted, None);
        let found = spec.egress.as_ref().unwrap();
        prop_assert_eq!(found.len(), usize::from(!wanted.is_empty()));
        let listed: Vec<IpAddr> = super::addresses(&spec).collect();
        prop_assert_eq!(listed.len(), wanted.len());
        prop_assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), wanted);
        if dns.is_none() {
            prop_assert!(rules.len() <= 1);
        }
    }
}

#[test]
fn without_addresses_everything_is_refused() {
    let spec = policy(&BTreeSet::new(), None);
    let expected = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": []});
    assert_eq!(serde_json::to_value(&spec).unwrap(), expected);
    assert_eq!(policy(&BTreeSet::new(), Some(&DnsPeers::default())), spec);
}

#[test]
fn addresses_and_dns_are_two_rules() {
    let addresses = ["2001:db8::1", "192.0.2.1"].map(|text| text.parse().unwrap());
    let dns = DnsPeers {
        pods: Some((
            "kube-system".to_owned(),
            ("k8s-app".to_owned(), "kube-dns".to_owned()),
        )),
        networks: vec!["169.254.20.10/32".parse().unwrap()],
    };
    let spec = policy(&addresses.into(), Some(&dns));
    let expected = json!([
        {"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}, {"ipBlock": {"cidr": "2001:db8::1/128"}}]},
        {
            "to": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                },
                {"ipBlock": {"cidr": "169.254.20.10/32"}},
            ],
            "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
        },
    ]);
    assert_eq!(serde_json::to_value(&spec.egress).unwrap(), expected);
    assert!(allows_dns(&spec));
}

#[test]
fn a_policy_lets_pods_reach_dns_by_port_or_by_a_wide_rule() {
    for (rule, expected) in [
        (json!({}), true),
        (json!({"to": []}), true),
        (json!({"to": [{"namespaceSelector": {}}]}), true),
        (json!({"to": [{"podSelector": {}}]}), false),
        (json!({"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}), true),
        (json!({"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}), false),
        (json!({"ports": [{"port": 53, "protocol": "UDP"}]}), true),
        (json!({"ports": [{"port": 53, "protocol": "TCP"}]}), false),
        (
            json!({"ports": [{"port": 1, "endPort": 100, "protocol": "UDP"}]}),
            true,
        ),
        (
            json!({"ports": [{"port": 54, "endPort": 100, "protocol": "UDP"}]}),
            false,
        ),
        (json!({"ports": [{"port": 443, "protocol": "TCP"}]}), false),
    ] {
        let spec = json!({"podSelector": {}, "egress": [rule]});
        let spec: NetworkPolicySpec = serde_json::from_value(spec).unwrap();
        assert_eq!(allows_dns(&spec), expected, "{spec:?}");
    }
}

#[test]
fn only_single_addresses_are_read_back() {
    let spec = json!({"podSelector": {}, "egress": [
        {"to": [
            {"ipBlock": {"cidr": "192.0.2.1/32"}},
            {"ipBlock": {"cidr": "192.0.2.0/24"}},
            {"ipBlock": {"cidr": "2001:db8::1/128"}},
            {"ipBlock": {"cidr": "0.0.0.0/0"}},
            {"podSelector": {}},
        ]},
    ]});
    let spec: NetworkPolicySpec = serde_json::from_value(spec).unwrap();
    let found: Vec<_> = super::addresses(&spec)
        .map(|address| address.to_string())
        .collect();
    assert_eq!(found, ["192.0.2.1", "2001:db8::1"]);
    assert!(!opens_everything(&spec));
    let open: NetworkPolicySpec =
        serde_json::from_value(json!({"podSelector": {}, "egress": [{}]})).unwrap();
    assert!(opens_everything(&open));
}

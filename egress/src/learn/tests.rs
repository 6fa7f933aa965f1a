use clap::Parser;
use serde_json::json;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    learn: LearnArgs,
}

fn args(args: &[&str]) -> LearnArgs {
    let args = ["egress"].iter().chain(args);
    Program::try_parse_from(args).unwrap().learn
}

fn asked(name: &str, address: &str) -> Asked {
    Asked {
        name: name.to_owned(),
        count: 3,
        by: ["pod".into()].into(),
        addresses: [address.parse().unwrap()].into(),
        guard: None,
    }
}

#[test]
fn names_that_would_not_pass_are_listed_with_the_rule_that_denies_them() {
    let https = json!([{ "protocol": "TCP", "port": 443 }]);
    let firewall = json!({ "metadata": { "name": "default" }, "spec": { "egress": [
        { "type": "Allow", "to": { "dnsName": "a.test.example" } },
        { "type": "Allow", "to": { "dnsName": "b.test.example" }, "ports": https },
        { "type": "Deny", "to": { "nodeSelector": {} } },
        { "type": "Deny", "to": { "cidrSelector": "0.0.0.0/0" } },
    ]}});
    let names = [
        asked("a.test.example", "192.0.2.1"),
        asked("b.test.example", "192.0.2.2"),
        asked("c.test.example", "192.0.2.3"),
        asked("d.svc.cluster.local", "192.0.2.4"),
    ];
    let objects = Objects::Firewalls(vec![serde_json::from_value(firewall).unwrap()]);
    let notes = ["a note".to_owned()];
    let (text, all_pass) = compared(&names, &objects, &args(&["-n", "a"]), &notes);
    let lines = [
        "# a note",
        "? egress[2] is not judged: its destination is neither a name nor a network",
        "! b.test.example, 3 answers to 1 client: 192.0.2.2: passes to TCP 443 alone",
        "✗ c.test.example, 3 answers to 1 client: 192.0.2.3: egress[3] denies it",
        "? d.svc.cluster.local: in the cluster, where these rules do not apply",
        "1 of 4 names would not pass.",
    ];
    assert_eq!(text, lines.join("\n"));
    assert!(!all_pass);
}

#[test]
fn policy_passes_the_names_of_its_resolvers_alone() {
    let resolver =
        json!({ "metadata": { "name": "x" }, "spec": { "domainList": ["a.test.example"] } });
    let names = [
        asked("a.test.example", "192.0.2.1"),
        asked("b.test.example", "192.0.2.2"),
    ];
    let objects = Objects::Resolvers(vec![serde_json::from_value(resolver).unwrap()]);
    let (text, all_pass) = compared(&names, &objects, &args(&["-n", "a", "--policy"]), &[]);
    assert!(
        text.starts_with(
            "✗ b.test.example, 3 answers to 1 client: 192.0.2.2: no DNSResolver has it\n"
        ),
        "{text}"
    );
    assert!(!all_pass);
}

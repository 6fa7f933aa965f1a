//! The policy-writers, the DNSResolvers in trouble, and the rights that a check of them needs.

use kube::{Api, api::PostParams};
use proto::api::DnsResolver;
use serde_json::json;
use tests::{chart, or_skip};

use super::{
    finds,
    helm_test::{CHECK, uses_its_rights},
    is_well,
};
use crate::installation::{Installation, NAMESPACE, VALUES};

const POLICIES: [&str; 4] = [
    "--set",
    "rules.sources={egressfirewall,dnsresolver}",
    "--set",
    "policyWriter.enabled=true",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_policy_writers_and_dns_resolvers_are_named() {
    let mut it = or_skip!(Installation::start_with(&POLICIES).await);
    let text = is_well(&it).await;
    for line in [
        "✓ policy-writers: 2 answer, version ",
        "✓ DNSResolvers: 0 DNSResolvers, none in trouble",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    with_the_rights_of_the_test(&it).await;

    let client = it.server.client().await;
    let resolvers: Api<DnsResolver> = Api::namespaced(client, "team");
    let resolver = json!({
        "metadata": { "name": "partners" },
        "spec": { "domainList": ["www.example.com"] },
    });
    let resolver = serde_json::from_value(resolver).unwrap();
    let post = PostParams::default();
    resolvers.create(&post, &resolver).await.unwrap();
    let seen = "✗ DNSResolvers: team/partners: DNSBlocked: ";
    finds(&it, 1, &[(seen, "policyWriter.dnsEgress=true")]).await;
    // `explain` finds the pods, too.
    let (_, text) = it.egress(&["explain", "www.example.com"]).await;
    let policy = "DNSResolver team/partners, which lists www.example.com: NetworkPolicy, IPMap";
    assert!(text.contains(policy), "{text}");
    let (status, text) = it.egress(&["verify"]).await;
    assert!(
        status == Some(0) && text.contains("1 DNSResolvers, 2 objects: 0 differ"),
        "{text}"
    );

    for pod in &mut it.policy_writers {
        pod.program.process().kill();
    }
    let silent = "? policy-writers: no answer of the policy-writer egress-by-name-policy-writer-";
    finds(&it, 1, &[(silent, "see its log")]).await;
}

/// A check with the account of `helm test` asks for all that its rights allow, and for no more.
async fn with_the_rights_of_the_test(it: &Installation) {
    let values = [&VALUES[..], &POLICIES].concat();
    let rendered = chart::objects(&chart::template_of_tests(NAMESPACE, &values));
    for object in &rendered {
        if chart::kind_of(object) != "Pod" {
            it.server.make(object).await;
        }
    }
    it.server.config_of(NAMESPACE, CHECK).await;
    let kubeconfig = it.server.folder().join(format!("{CHECK}.kubeconfig"));
    let (status, text) = it.egress_as(&kubeconfig, &["check"]).await;
    assert!(
        status == Some(0) && text.contains("leads") && !text.contains('?'),
        "{text}"
    );
    uses_its_rights(it, &rendered);
}

//! What the values of the chart make of the pods, as `helm template` renders them.

use std::process::Command;

use kube::ResourceExt;
use tests::{chart, programs::program};

/// Where the release is.
const NAMESPACE: &str = "egress-by-name";

#[test]
fn values_that_cannot_be_are_refused_in_words_that_help() {
    for (flags, words) in [
        (&["collector.instances=0"][..], "/collector/instances"),
        (&["collector.replica=3"], "'replica' not allowed"),
        (&["monitor.enabled=true"], "networkPolicy.metricsFrom"),
        (&["dnstap.tcp.enabled=false"], "neither tcp nor tls"),
        (&["dnstap.tls.enabled=true"], "dnstap.tls.secretName"),
        (&["dnstap.tls.issuerRef.name=ca"], "dnstap.clusterIPs"),
        (
            &[
                "rules.sources={egressfirewall,dnsresolver}",
                "rules.dnsResolverObjectsNamespace=ovn-kubernetes",
            ],
            "must not be objectsNamespace",
        ),
        (&["rules.sources={firewall}"], "/rules/sources/0"),
        (&["ovnWriter.mode=central"], "ovnWriter.central.remotes"),
        (
            &[
                "ovnWriter.mode=central",
                "ovnWriter.central.remotes=ssl:192.0.2.1:6641",
            ],
            "ovnWriter.central.tls.secretName",
        ),
        (
            &["dnstap.clusterIPs={collector.egress.svc}"],
            "/dnstap/clusterIPs/0",
        ),
    ] {
        let flags: Vec<&str> = flags.iter().flat_map(|flag| ["--set", flag]).collect();
        let refused = chart::template(NAMESPACE, &flags).unwrap_err();
        assert!(refused.contains(words), "{flags:?}: {refused}");
    }
    let older = chart::template(NAMESPACE, &["--kube-version", "1.29.9"]).unwrap_err();
    assert!(older.contains("requires kubeVersion: >=1.30"), "{older}");
}

#[test]
fn the_alerts_are_those_of_the_installed_programs() {
    for (flags, has_ovn_writers, has_policy_writers) in [
        (&[][..], true, false),
        (&["ovnWriter.mode=none"], false, false),
        (
            &[
                "policyWriter.enabled=true",
                "rules.sources={egressfirewall,dnsresolver}",
            ],
            true,
            true,
        ),
    ] {
        let flags = ["prometheusRule.enabled=true"].iter().chain(flags);
        let flags: Vec<&str> = flags.flat_map(|it| ["--set", it]).collect();
        let objects = chart::render(NAMESPACE, &flags);
        let rules = &chart::find(&objects, "PrometheusRule", NAMESPACE).data["spec"]["groups"];
        let text = rules.to_string();
        assert!(text.contains("EgressDNSCollectorsAbsent"), "{flags:?}");
        assert!(!text.contains("runbook_url"), "a link to no page: {text}");
        for (alert, expected) in [
            ("EgressDNSOvnWritersAbsent", has_ovn_writers),
            ("EgressDNSPolicyWritersAbsent", has_policy_writers),
        ] {
            assert_eq!(text.contains(alert), expected, "{alert} {flags:?}");
        }
    }
}

/// What the flags of the pods are is what the programs know.
#[test]
fn the_programs_know_the_flags_of_their_pods() {
    for case in chart::cases() {
        for object in chart::render(NAMESPACE, &["--values", &case.to_string_lossy()]) {
            let containers = object.data["spec"]["template"]["spec"]["containers"].clone();
            for container in containers.as_array().into_iter().flatten() {
                let words = |key: &str| -> Vec<String> {
                    serde_json::from_value(container[key].clone()).unwrap()
                };
                let [name] = &words("command")[..] else {
                    panic!("{container}");
                };
                // With what it cannot start with it says so before anything else.
                let output = Command::new(program(name))
                    .args(words("args"))
                    .arg("--log-format=none")
                    .output();
                let said = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
                let is_known = said.contains("invalid value 'none' for '--log-format");
                let is_twice = said.contains("cannot be used multiple times");
                assert!(
                    is_known || is_twice && said.contains("log-format"),
                    "{name}: {said}"
                );
            }
        }
    }
}

/// The accounts of the programs are those that roles and admission policies name.
#[test]
fn accounts_with_names_of_the_values_have_the_rights() {
    let values = chart::folder().join("ci/overrides-values.yaml");
    let objects = chart::render(NAMESPACE, &["--values", &values.to_string_lossy()]);
    let mut accounts: Vec<_> = objects
        .iter()
        .filter(|it| chart::kind_of(it) == "ServiceAccount")
        .map(ResourceExt::name_any)
        .collect();
    accounts.sort();
    assert_eq!(accounts, ["names", "sets"]);
    let bindings = objects
        .iter()
        .filter(|it| chart::kind_of(it).ends_with("RoleBinding"));
    for binding in bindings {
        let subject = &binding.data["subjects"][0]["name"];
        assert!(accounts.iter().any(|it| subject == it), "{subject}");
    }
    let name = format!("{NAMESPACE}-status-writers");
    let policy = chart::find(&objects, "ValidatingAdmissionPolicy", &name);
    let writers = policy.data["spec"]["variables"].to_string();
    assert!(
        writers.contains("serviceaccount:egress-by-name:names"),
        "{writers}"
    );
}

#[test]
fn each_source_of_names_has_its_rights_and_its_flags() {
    let flags = ["--set", "rules.sources={egressfirewall,dnsresolver}"];
    let objects = chart::render(NAMESPACE, &flags);
    let deployment = &chart::find(&objects, "Deployment", chart::COLLECTOR).data;
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    for flag in [
        "--rules=egressfirewall,dnsresolver",
        "--dnsresolver-objects-namespace=egress-by-name",
    ] {
        assert!(args.contains(flag), "{flag}: {args}");
    }
    let roles = objects.iter().filter(|it| {
        chart::kind_of(it) == "Role" && it.metadata.name.as_deref() == Some(chart::COLLECTOR)
    });
    let namespaces: Vec<_> = roles
        .map(|role| role.metadata.namespace.as_deref().unwrap())
        .collect();
    assert_eq!(namespaces, ["ovn-kubernetes", NAMESPACE]);
    let name = format!("{NAMESPACE}-status-writers");
    let policy = chart::find(&objects, "ValidatingAdmissionPolicy", &name);
    let selector = policy.data["spec"]["matchConstraints"]["namespaceSelector"].to_string();
    assert!(
        namespaces.iter().all(|it| selector.contains(it)),
        "{selector}"
    );
}

//! What the values of the chart make of the pods, as `helm template` renders them.

use std::process::Command;

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

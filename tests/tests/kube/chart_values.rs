//! What the values of the chart make of the pods, as `helm template` renders them.

use std::process::Command;

use serde_json::{Value, json};
use tests::{
    chart::{self, COLLECTOR, OVN_WRITER},
    programs::program,
};

/// Where the release is.
const NAMESPACE: &str = "egress-by-name";

#[test]
fn values_that_cannot_be_are_refused_in_words_that_help() {
    for (flags, words) in [
        (&["collector.instances=0"][..], "/collector/instances"),
        (&["collector.replica=3"], "'replica' not allowed"),
        (&["podMonitor.enabled=true"], "networkPolicy.metricsFrom"),
        (
            &["dns.watchPods=false", "dns.trustedNameservers={10.0.0.0/8}"],
            "dns.trustedNameservers needs dns.watchPods",
        ),
        (&["dnstap.tcp.enabled=false"], "neither tcp nor tls"),
        (&["dnstap.tls.enabled=true"], "dnstap.tls.secretName"),
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
}

/// On OpenShift the stock constraints choose the collector's user, and the ovn-writer's pod asks for no more than its own allow.
#[test]
fn openshift_has_constraints_that_fit_the_pods() {
    let values = chart::folder().join("ci/openshift-values.yaml");
    let objects = chart::render(NAMESPACE, &["--values", &values.to_string_lossy()]);
    let spec = |kind: &str, name: &str| -> Value {
        chart::find(&objects, kind, name).data["spec"]["template"]["spec"].clone()
    };
    let collector = &spec("Deployment", COLLECTOR)["securityContext"];
    for field in ["runAsUser", "runAsGroup", "fsGroup", "seLinuxOptions"] {
        assert!(collector.get(field).is_none(), "{collector}");
    }
    let writer = spec("DaemonSet", OVN_WRITER);
    let pod = &writer["securityContext"];
    let scc_name = format!("{NAMESPACE}-{OVN_WRITER}");
    let scc = &chart::find(&objects, "SecurityContextConstraints", &scc_name).data;
    assert_eq!(
        scc["runAsUser"],
        json!({"type": "MustRunAs", "uid": pod["runAsUser"]})
    );
    assert_eq!(scc["seccompProfiles"], json!(["runtime/default"]));
    // It is given with the level of the namespace, if the pod gives none.
    assert_eq!(
        scc["seLinuxContext"]["seLinuxOptions"],
        json!({"type": "spc_t"})
    );
    assert!(pod.get("seLinuxOptions").is_none(), "{pod}");
    let volumes = writer["volumes"].as_array().unwrap();
    let kinds = volumes
        .iter()
        .flat_map(|volume| volume.as_object().unwrap().keys());
    let mut kinds: Vec<&str> = kinds
        .map(String::as_str)
        .filter(|key| *key != "name")
        .collect();
    // That of the ServiceAccount.
    kinds.push("projected");
    assert_eq!(scc["volumes"], json!(kinds));
    for wide in [
        "allowHostNetwork",
        "allowHostPID",
        "allowHostIPC",
        "allowPrivilegedContainer",
        "allowPrivilegeEscalation",
    ] {
        assert_eq!(scc[wide], false, "{wide}");
    }
    let role = &chart::find(&objects, "Role", &format!("{OVN_WRITER}-scc")).data;
    assert_eq!(role["rules"][0]["resourceNames"], json!([scc_name]));
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

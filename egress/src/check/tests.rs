//! Topics about facts that the tests of a whole installation do not have.

pub(super) mod facts;
mod hold;
mod running;

use proto::facts::Program;
use serde_json::{Value, json};

use self::facts::{of, well, workload};
use super::{
    facts::{DnsService, Facts},
    report::{Finding, Report},
    seen::Unseen,
    *,
};

/// The marks of a topic's findings, in order.
pub(super) fn marks(findings: Vec<Finding>) -> String {
    let text = Report::new(findings).text();
    let starts = text.lines().filter_map(|line| line.chars().next());
    starts.filter(|it| "✓!?✗".contains(*it)).collect()
}

fn assert_found(findings: Vec<Finding>, expected: &str, words: &str) {
    let text = Report::new(findings.clone()).text();
    assert_eq!(marks(findings), expected, "{text}");
    assert!(text.contains(words), "{words}: {text}");
}

#[test]
fn an_api_server_that_fails_is_the_fault_and_not_the_rights() {
    let mut facts = well();
    let silent = Unseen::failure("no answer in time");
    facts.pods = Err(silent);
    let found = api_server::api_server(&facts);
    assert_found(found, "✗", "v1.36.3: the API server fails: no answer");
    let text = Report::new(pods::pods(&facts)).text();
    let is_cure = text.contains("whether etcd answers") && !text.contains("right");
    assert!(is_cure, "{text}");
    facts.pods = Err(Unseen("pods is forbidden".to_owned()));
    assert_found(api_server::api_server(&facts), "✓", "");
    assert_found(pods::pods(&facts), "?", "you need the rights");
}

#[test]
fn pods_that_have_ended_are_no_fault_and_do_not_count() {
    for phase in ["Failed", "Succeeded"] {
        let mut facts = well();
        let pods = facts.pods.as_mut().unwrap();
        let mut evicted = pods.clone();
        for pod in &mut evicted {
            pod.status.phase = Some(phase.to_owned());
            pod.status.conditions.clear();
        }
        pods.extend(evicted.clone());
        assert_found(pods::pods(&facts), "✓", "2 are ready");
        facts.pods = Ok(evicted);
        assert_found(pods::pods(&facts), "✗✗", "collector has 0 pods of 1");
    }
}

#[test]
fn pods_that_are_refused_have_the_reason_and_its_cure() {
    let with = |message: &str| {
        let mut facts = well();
        facts.pods.as_mut().unwrap().truncate(1);
        let about = json!({ "kind": "DaemonSet", "name": "ovn-writer" });
        let event = json!({ "metadata": {}, "reason": "FailedCreate", "message": message, "involvedObject": about });
        facts.events = Ok(vec![of(event)]);
        pods::pods(&facts)
    };
    let by_pod_security = with("violates PodSecurity \"baseline:latest\"");
    assert_found(
        by_pod_security,
        "✗",
        "kubectl label --overwrite namespace dns",
    );
    let by_openshift = with("unable to validate against any security context constraint");
    assert_found(by_openshift, "✗", "openshift=true");
    assert_found(with("quota"), "✗", "ovn-writer has 0 pods of 1: quota");
}

#[test]
fn version_of_coredns_that_lacks_what_the_corefile_uses_is_a_fault() {
    let with = |image: &str| {
        let mut facts = well();
        let pods = facts.dns.services[0].pods.as_mut().unwrap();
        pods.as_mut().unwrap()[0].spec.containers[0].image = image.to_owned();
        dns_servers::coredns(&facts)
    };
    assert_found(with("coredns:1.14.7"), "✓", "version 1.14.7");
    assert_found(with("coredns:1.11.3"), "!", "upgrade CoreDNS to 1.13.2");
    assert_found(with("coredns:1.9.4"), "✗", "collector.instances=1");
    assert_found(
        with("coredns@sha256:01"),
        "✓",
        "which its image does not name",
    );
    let mut facts = well();
    facts.dns.services = vec![DnsService {
        key: "a/b".parse().unwrap(),
        pods: Ok(Some(Vec::new())),
    }];
    assert_found(dns_servers::coredns(&facts), "✗", "Service a/b has no pods");
}

#[test]
fn some_program_must_write_the_address_sets() {
    let with = |value: &str, has_writer: bool| {
        let mut facts = well();
        facts.ovn_kubernetes.pods = Ok(vec![of(
            json!({ "metadata": { "name": "ovnkube-node-a" }, "spec": { "containers": [{
            "name": "c", "env": [{ "name": "OVN_ENABLE_DNSNAMERESOLVER", "value": value }],
        }] } }),
        )]);
        if !has_writer {
            facts.workloads = Ok(vec![workload(Program::Collector, "collector")]);
        }
        facts
    };
    assert_found(
        ovn_kubernetes::ovn_kubernetes(&with("true", false)),
        "✓",
        "is on",
    );
    assert_found(
        ovn_kubernetes::ovn_kubernetes(&with("false", true)),
        "✓",
        "the ovn-writer writes",
    );
    assert_found(
        ovn_kubernetes::ovn_kubernetes(&with("false", false)),
        "✗",
        "no program writes the address sets",
    );
    assert_found(
        ovn_kubernetes::before(&with("true", false)),
        "✓",
        "ovnWriter.mode=none",
    );
    let mut facts = with("true", false);
    facts.ovn_kubernetes.pods = Ok(Vec::new());
    assert_found(
        ovn_kubernetes::ovn_kubernetes(&facts),
        "?",
        "has no pod ovnkube-*",
    );
    // Without an ovn-writer no program compares the sets, which is no fault.
    assert_found(
        super::running::sets(&facts.programs, facts.no_writer()),
        "!",
        "ovnWriter.mode=none",
    );
}

#[test]
fn a_corefile_may_name_either_port_of_a_service_also_over_ipv6() {
    let with = |corefile: &str| {
        let mut facts = well();
        facts.services = Ok(vec![of(
            json!({ "metadata": { "name": "collector" }, "spec": { "clusterIP": "fd00::53", "ports": [
            { "name": "dnstap-tcp", "port": 6000 }, { "name": "dnstap-tls", "port": 6001 },
        ] } }),
        )]);
        let map = json!({ "data": { "Corefile": corefile } });
        facts.dns.corefile = Some(("kube-system/coredns".parse().unwrap(), Ok(Some(of(map)))));
        streaming::corefile(&facts)
    };
    for endpoint in ["tcp://[fd00::53]:6000", "tls://[fd00::53]:6001"] {
        assert_found(
            with(&format!(". {{\n dnstap {endpoint} full\n}}\n")),
            "✓",
            "",
        );
    }
    assert_found(
        with(". {\n dnstap tcp://[fd00::53]:6001 full\n}\n"),
        "!✗",
        "Service collector is at tcp://[fd00::53]:6000 and tls://[fd00::53]:6001",
    );
    assert_found(
        with(". {\n dnstap tcp://[fd00::53]:6000\n}\n"),
        "✗",
        "lacks `full`",
    );
    assert_found(
        with(". {\n dnstap tcp://[fd00::53]:6000 full\n autopath @kubernetes\n}\n"),
        "!",
        "autopath",
    );
    let mut facts = well();
    facts.dns.corefile = None;
    assert_found(streaming::corefile(&facts), "!", "not checked");
}

#[test]
fn a_pod_that_is_not_ready_has_its_reason_once_for_all() {
    let pod = |name: &str, status: Value| {
        of(
            json!({ "metadata": { "name": name, "namespace": "dns", "labels": { "app.kubernetes.io/component": "ovn-writer" } }, "status": status }),
        )
    };
    let with = |status: Value| {
        let mut facts = well();
        let pods = facts.pods.as_mut().unwrap();
        pods.truncate(1);
        pods.extend(["w-1", "w-2"].map(|name| pod(name, status.clone())));
        pods::pods(&facts)
    };
    let waiting = json!({ "containerStatuses": [{ "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 9,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } } }] });
    assert_found(with(waiting), "✗", "kubectl -n dns logs w-1 --previous");
    let unscheduled = json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "message": "Insufficient memory" }] });
    assert_found(
        with(unscheduled),
        "✗",
        "w-1, w-2: no node takes it: Insufficient memory",
    );
    let mut facts = well();
    facts.workloads = Ok(Vec::new());
    assert_found(pods::pods(&facts), "✗", "has no Deployment of a collector");
}

#[test]
fn an_api_server_that_is_too_old_or_does_not_answer_is_told() {
    let mut facts: Facts = well();
    facts.version = Ok("v1.29.9".to_owned());
    assert_found(
        api_server::api_server(&facts),
        "✗",
        "upgrade it to 1.30 or newer",
    );
    facts.version = Err(Unseen("connection refused".to_owned()));
    assert_found(found(&facts, TOPICS), "?", "connection refused");
}

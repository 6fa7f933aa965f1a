//! Topics about facts that the tests of a whole installation do not have.

mod facts;
mod policy_writers;

use serde_json::{Value, json};

use self::facts::{collector, of, well, writer};
use super::{
    facts::{DnsService, Facts},
    report::{Finding, Report},
    seen::Unseen,
    *,
};

/// The marks of a topic's findings, in order.
fn marks(findings: Vec<Finding>) -> String {
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
fn facts_without_a_fault_are_well() {
    let facts = well();
    for check in [
        api_server::api_server,
        api_server::resources,
        pods::pods,
        admission::admission,
        nodes::writers_of_nodes,
        streaming::corefile,
        dns_servers::coredns,
        policies::policies,
        lease::lease,
        ovn_kubernetes::ovn_kubernetes,
    ] {
        assert_found(check(&facts), "✓", "");
    }
}

#[test]
fn an_api_server_that_fails_is_the_fault_and_not_the_rights() {
    let mut facts = well();
    let silent = Unseen::failure("no answer in time");
    facts.pods = Err(silent.clone());
    facts.leases.collectors = Err(silent);
    let found = api_server::api_server(&facts);
    assert_found(found, "✗", "v1.36.3: the API server fails: no answer");
    for check in [pods::pods, lease::lease] {
        let text = Report::new(check(&facts)).text();
        let is_cure = text.contains("whether etcd answers") && !text.contains("right");
        assert!(is_cure, "{text}");
    }
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
            let status = pod.status.as_mut().unwrap();
            status.phase = Some(phase.to_owned());
            status.conditions = None;
        }
        pods.extend(evicted.clone());
        assert_found(pods::pods(&facts), "✓", "2 are ready");
        assert_found(nodes::writers_of_nodes(&facts), "✓", "");
        facts.pods = Ok(evicted);
        assert_found(pods::pods(&facts), "✗", "has 0 pods of 1");
        assert_found(nodes::writers_of_nodes(&facts), "✗", "without one: node-a");
    }
}

#[test]
fn only_nodes_that_a_daemon_set_may_use_need_a_writer() {
    let node = |name: &str, taint: Value| {
        of(
            json!({ "metadata": { "name": name, "labels": { "kubernetes.io/os": "linux" } }, "spec": { "taints": taint } }),
        )
    };
    let tainted = json!([{ "key": "dedicated", "value": "x", "effect": "NoSchedule" }]);
    let mut facts = well();
    facts.nodes = Ok(vec![node("node-a", json!([])), node("node-b", tainted)]);
    assert_found(nodes::writers_of_nodes(&facts), "✓", "1 node");
    for tolerations in [
        json!([{ "operator": "Exists" }]),
        json!([{ "key": "dedicated", "value": "x", "effect": "NoSchedule" }]),
    ] {
        facts.workloads = Ok(vec![
            collector(),
            writer(json!({ "tolerations": tolerations })),
        ]);
        assert_found(
            nodes::writers_of_nodes(&facts),
            "✗",
            "nodes without one: node-b",
        );
    }
    for spec in [
        json!({ "tolerations": [{ "key": "other", "operator": "Exists" }] }),
        json!({ "tolerations": [{ "key": "dedicated", "value": "y", "effect": "NoSchedule" }] }),
        json!({ "nodeSelector": { "kubernetes.io/os": "windows" } }),
    ] {
        facts.workloads = Ok(vec![collector(), writer(spec.clone())]);
        assert_found(nodes::writers_of_nodes(&facts), "✓", "");
    }
    // A check does not follow rules of affinity: the controller counts.
    let affinity = json!({ "affinity": { "nodeAffinity": {} } });
    let mut by_affinity = writer(affinity);
    by_affinity.desired = Some(2);
    facts.workloads = Ok(vec![collector(), by_affinity]);
    assert_found(
        nodes::writers_of_nodes(&facts),
        "✗",
        "1 of 2 nodes have one",
    );
    facts.workloads = Ok(vec![collector()]);
    assert_found(nodes::writers_of_nodes(&facts), "✓", "none is needed");
    facts.nodes = Err(Unseen("no".to_owned()));
    facts.workloads = Ok(vec![collector(), writer(json!({}))]);
    assert_found(nodes::writers_of_nodes(&facts), "?", "list nodes");
}

#[test]
fn a_version_of_coredns_that_lacks_what_the_corefile_uses_is_a_fault() {
    let with = |version: Result<&str, &str>, corefile: &str| {
        let mut facts = well();
        let found = facts.dns.services[0]
            .pods
            .as_mut()
            .unwrap()
            .as_mut()
            .unwrap();
        let seen = version.map(|it| (it.to_owned(), "its metrics"));
        found[0].version = seen.map_err(|it| Unseen(it.to_owned()));
        let map = facts.dns.corefile.as_mut().unwrap().1.as_mut().unwrap();
        map.as_mut()
            .unwrap()
            .data
            .as_mut()
            .unwrap()
            .insert("Corefile".to_owned(), corefile.to_owned());
        dns_servers::coredns(&facts)
    };
    assert_found(with(Ok("1.14.7"), ""), "✓", "1.14.7 by its metrics");
    assert_found(with(Ok("1.11.3"), ""), "!", "upgrade CoreDNS to 1.13.2");
    assert_found(
        with(Ok("1.10.5"), "dnstap tls://10.0.0.1:6001 full"),
        "✗!",
        "cannot stream to tls://",
    );
    assert_found(with(Ok("1.9.4"), ""), "✗!", "collector.instances=1");
    assert_found(with(Ok("custom"), ""), "?", "is not of the form");
    assert_found(with(Err("forbidden"), ""), "?", "forbidden");
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
            facts.workloads = Ok(vec![collector()]);
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
        sets::sets(&facts.programs, facts.no_writer()),
        "!",
        "ovnWriter.mode=none",
    );
}

#[test]
fn a_lease_that_nobody_renews_is_a_fault_whatever_the_clock_says() {
    let with = |lease: Value| {
        let mut facts = well();
        facts.leases.collectors = Ok(Some(of(lease)));
        facts
    };
    let old = json!({ "spec": { "holderIdentity": "a", "leaseDurationSeconds": 10, "renewTime": "2026-01-01T00:00:00.000000Z" } });
    assert_found(lease::lease(&with(old.clone())), "✓", "a leads");
    let mut facts = with(old);
    facts.programs = Programs::default();
    assert_found(lease::lease(&facts), "✗", "a renewed the Lease");
    let mut facts = with(
        json!({ "spec": { "holderIdentity": "a", "renewTime": "2126-01-01T00:00:00.000000Z" } }),
    );
    facts.programs = Programs::default();
    let ahead = "a renewed the Lease with a time that is ";
    assert_found(lease::lease(&facts), "✗", ahead);
    assert_found(
        lease::lease(&with(json!({ "spec": { "holderIdentity": "" } }))),
        "✗",
        "no holder",
    );
    facts.leases.collectors = Ok(None);
    assert_found(lease::lease(&facts), "✗", "there is no Lease");
    facts.leases.collectors = Err(Unseen("no".to_owned()));
    assert_found(lease::lease(&facts), "?", "get the Lease");
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
        "✗",
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

#[test]
fn a_part_that_an_account_may_not_read_is_unseen() {
    let no = || Unseen("no".to_owned());
    let mut facts = well();
    facts.ovn_kubernetes.configs = vec![Err(no())];
    assert_found(
        ovn_kubernetes::ovn_kubernetes(&facts),
        "?",
        "get its ConfigMaps",
    );
    let mut facts = well();
    facts.namespaces = vec![("dns".to_owned(), Err(no()))];
    assert_found(admission::admission(&facts), "?", "level of Pod Security");
    let mut facts = well();
    facts.programs = Programs::of_collector(Err(no()));
    assert_found(lease::lease(&facts), "?", "not every collector answers");
}

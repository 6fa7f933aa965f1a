//! The DNS servers: CoreDNS's version, and whether each collector receives the stream of each pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::ResourceExt;
use proto::{
    facts::{CollectorFacts, StreamState},
    text::few,
};
use tokio::time::{Instant, sleep};

use super::{
    facts::Facts,
    pods::is_ready,
    programs::{Programs, answers, problems, tell},
    report::{Finding, Mark, Report, Topic, counted},
};
use crate::{output::MOST_NAMED, targets::Targets};

/// Between two questions to the collectors.
const PAUSE: Duration = Duration::from_secs(2);

/// The versions from which on a fault of the plugin `dnstap` is mended.
const SEVERAL_LINES: [u32; 3] = [1, 10, 1];
const FLUSHES: [u32; 3] = [1, 13, 2];

/// The codes of problems with streams.
pub(crate) const STREAMS: [&str; 2] = ["DnsServerSendsNoDnstap", "DnsServerForwardsProbes"];

/// CoreDNS's pods and their versions.
pub(crate) fn coredns(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("CoreDNS");
    for service in &facts.dns.services {
        let key = &service.key;
        match &service.pods {
            Err(unseen) => topic.unknown(
                unseen.0.clone(),
                format!(
                    "you need the rights to get Services and list pods in namespace {}",
                    key.namespace
                ),
            ),
            Ok(None) => topic.fault(
                format!("there is no Service {key}"),
                "name the Services of the DNS servers in dns.services",
            ),
            Ok(Some(pods)) if pods.is_empty() => topic.fault(
                format!("Service {key} has no pods"),
                "see why CoreDNS does not run",
            ),
            Ok(Some(_)) => {}
        }
    }
    let mut versions: BTreeMap<[u32; 3], Vec<String>> = BTreeMap::new();
    for pod in facts.dns_pods() {
        let name = pod.name_any();
        if !is_ready(pod) {
            let namespace = pod.namespace().unwrap_or_default();
            topic.fault(
                format!("pod {name} is not ready"),
                format!("kubectl -n {namespace} describe pod {name}"),
            );
        }
        let mut images = pod.spec.containers.iter().map(|it| it.image.as_str());
        if let Some(version) = images.find_map(of_image) {
            versions.entry(version).or_default().push(name);
        }
    }
    let collectors = facts.services.as_ref().map_or(0, Vec::len);
    for (version, pods) in &versions {
        let shown = version.map(|it| it.to_string()).join(".");
        let pods = few(pods.iter(), MOST_NAMED);
        if *version < SEVERAL_LINES && collectors > 1 {
            topic.fault(
                format!("version {shown} streams to one collector only, whatever the Corefile says (pods {pods})"),
                "upgrade CoreDNS to 1.11.1 or newer, or set collector.instances=1",
            );
        } else if *version < FLUSHES {
            topic.warn(
                format!("version {shown} is older than 1.13.2: it sends late, and may not dial again by itself (pods {pods})"),
                "upgrade CoreDNS to 1.13.2 or newer, or keep flush probes on: docs/troubleshooting.md#coredns-versions",
            );
        }
    }
    topic.or_ok(|| {
        let shown = versions
            .keys()
            .map(|it| it.map(|it| it.to_string()).join("."));
        let shown: Vec<String> = shown.collect();
        let shown = match shown.as_slice() {
            [] => "which its image does not name".to_owned(),
            shown => shown.join(", "),
        };
        format!(
            "{} pods are ready, version {shown}",
            facts.dns_pods().count()
        )
    })
}

/// The version in the tag of an image.
fn of_image(image: &str) -> Option<[u32; 3]> {
    let tag = image.split('@').next()?.rsplit_once(':')?.1;
    let mut numbers = tag.trim_start_matches('v').split(['.', '-', '+', '_']);
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

fn collectors(programs: &Programs) -> impl Iterator<Item = (&str, &CollectorFacts)> {
    let all = answers(&programs.collectors);
    all.filter_map(|(program, status)| Some((program, status.collector.as_ref()?)))
}

/// Asks the collectors whether each receives each DNS server, until all do, for this long at most.
pub(crate) async fn wait_for_streams(targets: &Targets, patience: Duration) -> Report {
    let end = Instant::now() + patience;
    loop {
        let report = Report::new(streams(&Programs::ask_collectors(targets).await));
        let is_good = matches!(report.result, Mark::Ok | Mark::Warning);
        if is_good || Instant::now() >= end {
            return report;
        }
        sleep(PAUSE).await;
    }
}

/// Whether each collector receives the stream of each DNS server.
pub(crate) fn streams(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new("dnstap streams");
    if collectors(programs).next().is_none() {
        topic.unknown("no collector answers", "see the line about collectors");
    }
    let of_streams = problems(&programs.collectors, |code| STREAMS.contains(&code));
    tell(&mut topic, of_streams);
    for (program, collector) in collectors(programs) {
        if collector.streams.is_empty() {
            topic.unknown(
                format!("the {program} probes no DNS server, so no stream is known to arrive"),
                "name DNS servers (dns.services, --resolver), and keep flush probes on (--flush-probe)",
            );
        }
        let mut streams = collector.streams.iter();
        if let Some(it) = streams.find(|it| it.state == StreamState::Trying) {
            let server = it.server;
            topic.unknown(
                format!("the {program} has not received anything from DNS server {server} yet"),
                "check again in half a minute",
            );
        }
    }
    let servers = collectors(programs).flat_map(|(_, it)| &it.streams);
    let servers: BTreeSet<_> = servers.map(|it| it.server).collect();
    topic.or_ok(|| {
        format!(
            "received from {} by {} in the last 30 s",
            counted(servers.len(), "DNS server"),
            counted(programs.collectors.len(), "collector")
        )
    })
}

#[cfg(test)]
mod tests;

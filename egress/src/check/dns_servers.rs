//! The DNS servers: CoreDNS's version, and whether each collector receives the stream of each pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kube::ResourceExt;
use runtime::inspect::text::few;

use super::{
    facts::{DnsPod, Facts},
    pods::{ips, is_ready},
    programs::{ASK, CollectorStatus, DnsBlock, MOST_NAMED, Programs, answers},
    report::{Finding, Topic, counted},
};

/// The versions from which on a fault of the plugin `dnstap` is mended.
const SEVERAL_LINES: [u32; 3] = [1, 10, 1];
const TLS: [u32; 3] = [1, 11, 0];
const FLUSHES: [u32; 3] = [1, 13, 2];

const UPGRADE: &str = "upgrade CoreDNS";

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
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut ways = Vec::new();
    for DnsPod { pod, version } in facts.dns_pods() {
        let name = pod.name_any();
        if !is_ready(pod) {
            topic.fault(
                format!("pod {name} is not ready"),
                format!(
                    "kubectl -n {} describe pod {name}",
                    pod.namespace().unwrap_or_default()
                ),
            );
        }
        match version {
            Ok((version, way)) => {
                versions.entry(version).or_default().push(name);
                ways.push(*way);
            }
            Err(unseen) => topic.unknown(
                format!("the version of pod {name} is not known: {}", unseen.0),
                "turn on its plugin `prometheus`; you need the rights to get and create pods/portforward there",
            ),
        }
    }
    for (version, pods) in &versions {
        version_of(&mut topic, facts, version, pods);
    }
    topic.or_ok(|| {
        let shown = versions.keys().copied().collect::<Vec<_>>().join(", ");
        ways.dedup();
        format!(
            "{} pods are ready, version {shown} by {}",
            facts.dns_pods().count(),
            ways.join(" and ")
        )
    })
}

fn version_of(topic: &mut Topic, facts: &Facts, version: &str, pods: &[String]) {
    let pods = few(pods.iter(), MOST_NAMED);
    let seen = |what: &str| format!("version {version} {what} (pods {pods})");
    let Some(parsed) = parsed(version) else {
        topic.unknown(
            seen("is not of the form 1.13.2"),
            "compare it with docs/troubleshooting.md#coredns-versions",
        );
        return;
    };
    let collectors = facts.services.as_ref().map_or(0, Vec::len);
    if parsed < SEVERAL_LINES && collectors > 1 {
        topic.fault(
            seen("streams to one collector only, whatever the Corefile says"),
            format!("{UPGRADE} to 1.10.1 or newer, or set collector.instances=1"),
        );
    }
    let uses_tls = facts.dns.corefile.iter().any(|(_, map)| {
        let data = map.iter().flatten().filter_map(|map| map.data.as_ref());
        data.flat_map(BTreeMap::values)
            .any(|text| text.contains("tls://"))
    });
    if parsed < TLS && uses_tls {
        topic.fault(
            seen("cannot stream to tls://"),
            format!("{UPGRADE} to 1.11.0 or newer, or use tcp://"),
        );
    }
    if parsed < FLUSHES {
        topic.warn(
            seen("is older than 1.13.2: it sends late, and may not dial again by itself"),
            format!("{UPGRADE} to 1.13.2 or newer, or keep flush probes on: docs/troubleshooting.md#coredns-versions"),
        );
    }
}

/// The first three numbers of a version.
fn parsed(version: &str) -> Option<[u32; 3]> {
    let version = version.trim_start_matches('v');
    let mut numbers = version.split(['.', '-', '+', '_']).map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The version in the tag of an image.
pub(super) fn of_image(image: &str) -> Option<String> {
    let tag = image.split('@').next()?.rsplit_once(':')?.1;
    parsed(tag).map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"))
}

/// The version in the metrics of CoreDNS.
pub(super) fn of_metrics(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.starts_with("coredns_build_info{"))?;
    let mut labels = line.split(['{', ',']);
    let version = labels.find_map(|label| label.strip_prefix("version=\""))?;
    Some(version.split('"').next()?.to_owned())
}

/// Whether each collector receives the stream of each DNS server, in a cluster.
pub(crate) fn streams(facts: &Facts) -> Vec<Finding> {
    let mut topic = of_programs(&facts.programs);
    let mut unknown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (collector, status) in answers(&facts.programs.collectors) {
        // Without a block there are no probes; that is told above.
        if status.dns_blocks.is_empty() {
            continue;
        }
        let is_known = |ip: &IpAddr| status.dns_blocks.iter().any(|it| it.server.ip() == *ip);
        for DnsPod { pod, .. } in facts.dns_pods() {
            if is_ready(pod) && !ips(pod).iter().any(is_known) {
                unknown.entry(pod.name_any()).or_default().push(collector);
            }
        }
    }
    for (pod, collectors) in unknown {
        topic.unknown(
            format!("pod {pod} is not probed by the {}", few(collectors.iter(), MOST_NAMED)),
            "see that an EndpointSlice of the DNS Service has it: kubectl -n kube-system get endpointslices",
        );
    }
    ok(topic, &facts.programs)
}

/// The same for programs at local sockets.
pub(crate) fn local_streams(programs: &Programs) -> Vec<Finding> {
    ok(of_programs(programs), programs)
}

fn of_programs(programs: &Programs) -> Topic {
    let mut topic = Topic::new("dnstap streams");
    if answers(&programs.collectors).next().is_none() {
        topic.unknown("no collector answers", ASK);
    }
    for (program, status) in answers(&programs.collectors) {
        of_collector(&mut topic, program, status);
    }
    topic
}

fn of_collector(topic: &mut Topic, program: &str, status: &CollectorStatus) {
    for refused in &status.refused_dns_servers {
        topic.fault(
            format!(
                "the {program} refuses the stream of {}: {}",
                refused.server, refused.words
            ),
            "see docs/security.md#dns-servers-on-the-host-network",
        );
    }
    if status.dns_blocks.is_empty() {
        topic.unknown(
            format!("the {program} probes no DNS server, so no stream is known to arrive"),
            "name DNS servers (dns.services, --resolver), and keep flush probes on (--flush-probe)",
        );
    }
    for block in &status.dns_blocks {
        of_block(topic, program, block);
    }
}

fn of_block(topic: &mut Topic, program: &str, block: &DnsBlock) {
    let (server, name) = (block.server, &block.name);
    match block.state.as_str() {
        "streaming" => {}
        "not_streaming" => topic.fault(
            format!("DNS server {server} is not streaming to the {program}: no probe came back for 30 s (block of {name})"),
            "see the lines about the Corefile and NetworkPolicies, and CoreDNS's log; restart CoreDNS if it lost the collector",
        ),
        "forwards" => topic.warn(
            format!("DNS server {server} forwards the probes of the {program}, so its stream may be a second late"),
            "give a name that this block answers by itself: dns.flushNames",
        ),
        _ => topic.unknown(
            format!("the {program} has not received anything from DNS server {server} yet"),
            "check again in half a minute",
        ),
    }
}

fn ok(topic: Topic, programs: &Programs) -> Vec<Finding> {
    let blocks = answers(&programs.collectors).flat_map(|(_, status)| &status.dns_blocks);
    let blocks: Vec<&DnsBlock> = blocks.collect();
    let longest = |of: fn(&DnsBlock) -> Option<f64>| {
        let all = blocks.iter().filter_map(|block| of(block));
        all.fold(0.0, f64::max)
    };
    topic.or_ok(|| {
        let servers: BTreeSet<_> = blocks.iter().map(|it| it.server).collect();
        format!(
            "received from {} by {}; the last event of each is at most {:.0} s old, and came at most {:.0} ms late",
            counted(servers.len(), "DNS server"),
            counted(programs.collectors.len(), "collector"),
            longest(|it| it.reported_seconds),
            longest(|it| it.delay_seconds) * 1000.0
        )
    })
}

#[cfg(test)]
mod tests;

//! The Corefile: whether each server block streams to the address of each collector's Service.

use std::collections::BTreeSet;

use kube::ResourceExt;
use proto::text::few;
use runtime::store::ObjectKey;

use super::{
    facts::{Corefile, Facts},
    report::{Finding, Topic},
};
use crate::{
    corefile::{self, Imports, KEY, Line, Scope, bypasses, findings, parse},
    objects::Service,
    output::MOST_NAMED,
};

/// The endpoints of a collector's Service, as a Corefile names them.
pub(crate) struct Endpoints {
    service: String,
    all: Vec<String>,
}

impl Endpoints {
    pub(crate) fn of(service: &Service) -> Self {
        let ip = &service.spec.cluster_ip;
        let host = match ip.contains(':') {
            true => format!("[{ip}]"),
            false => ip.clone(),
        };
        let all = service.spec.ports.iter().filter_map(|port| {
            let scheme = match port.name.as_deref()? {
                "dnstap-tls" => "tls",
                "dnstap-tcp" => "tcp",
                _ => return None,
            };
            Some(format!("{scheme}://{host}:{}", port.port))
        });
        Self {
            service: service.name_any(),
            all: all.collect(),
        }
    }

    /// The one that a `dnstap` line names.
    fn named(&self, corefile: &corefile::Corefile) -> Option<&String> {
        let named = endpoints(corefile);
        self.all.iter().find(|it| named.contains(it.as_str()))
    }

    /// The one for a `dnstap` line: that which is there, or else the first.
    pub(crate) fn wanted(&self, corefile: &corefile::Corefile) -> Option<&String> {
        self.named(corefile).or(self.all.first())
    }
}

/// The endpoints of `dnstap` lines.
fn endpoints(corefile: &corefile::Corefile) -> BTreeSet<&str> {
    let directives = corefile.blocks.iter().flat_map(|it| &it.directives);
    let lines = directives.filter(|it| it.name == "dnstap");
    lines.filter_map(|it| it.arg(0)).collect()
}

/// A Corefile in the cluster.
struct Found<'a> {
    key: &'a ObjectKey,
    corefile: corefile::Corefile,
}

impl<'a> Found<'a> {
    /// Reads it, or tells why that is not possible.
    fn read(topic: &mut Topic, (key, map): &'a Corefile) -> Option<Self> {
        let map = match map {
            Ok(Some(map)) => map,
            Ok(None) => {
                topic.fault(
                    format!("there is no ConfigMap {key}"),
                    "name the ConfigMap with the Corefile: --corefile or --node-local",
                );
                return None;
            }
            Err(unseen) => {
                let remedy = format!("you need the right to get ConfigMap {key}");
                topic.unknown(unseen.0.clone(), remedy);
                return None;
            }
        };
        let mut files = map.data.clone().unwrap_or_default();
        let Some(text) = files.remove(KEY) else {
            topic.fault(
                format!("ConfigMap {key} has no data under `{KEY}`"),
                "name the ConfigMap with the Corefile: --corefile or --node-local",
            );
            return None;
        };
        match parse(&text, &Imports::Files(files)) {
            Ok(corefile) => Some(Self { key, corefile }),
            Err(error) => {
                topic.fault(format!("ConfigMap {key}: {error}"), "mend this line");
                None
            }
        }
    }
}

/// The servers that the blocks for external names forward to; `None` if the Corefile cannot be read, which its topic tells.
pub(super) fn upstreams(facts: &Facts) -> Option<Vec<String>> {
    let map = facts.dns.corefile.as_ref()?;
    let found = Found::read(&mut Topic::new("Corefile"), map)?;
    let scope = scope(facts);
    let blocks = found.corefile.blocks.iter();
    let blocks = blocks.filter(|it| scope.is_external(it));
    let upstreams = blocks.flat_map(corefile::upstreams);
    Some(upstreams.map(ToOwned::to_owned).collect())
}

pub(crate) fn corefile(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Corefile");
    let Some(map) = &facts.dns.corefile else {
        topic.warn(
            "not checked: --corefile is none",
            "see by the line about dnstap streams that each DNS server is received",
        );
        return topic.into();
    };
    let services = match &facts.services {
        Ok(services) if services.is_empty() => {
            topic.fault(
                format!(
                    "namespace {} has no Service of a collector",
                    facts.namespace
                ),
                "install the chart, or name its namespace by --release-namespace",
            );
            return topic.into();
        }
        Ok(services) => services.iter().map(Endpoints::of).collect::<Vec<_>>(),
        Err(unseen) => {
            let remedy = "you need the right to list Services in the namespace of the chart";
            topic.unknown(unseen.0.clone(), remedy);
            return topic.into();
        }
    };
    let Some(found) = Found::read(&mut topic, map) else {
        return topic.into();
    };
    let lines = compare(&mut topic, &found, &services);
    lint(&mut topic, &found, &lines, &scope(facts));
    topic.or_ok(|| {
        let services: Vec<_> = services.iter().map(|it| &it.service).collect();
        let services = few(services.iter(), MOST_NAMED);
        format!(
            "ConfigMap {} streams each server block to {services}",
            found.key
        )
    })
}

/// Whether a NodeLocal DNSCache sends names past the cluster's DNS servers.
pub(crate) fn node_local(facts: &Facts) -> Vec<Finding> {
    let Some(map) = &facts.dns.node_local else {
        return Vec::new();
    };
    let mut topic = Topic::new("NodeLocal DNSCache");
    let Some(found) = Found::read(&mut topic, map) else {
        return topic.into();
    };
    for finding in bypasses(&found.corefile, &scope(facts)) {
        let (key, line) = (found.key, finding.line);
        topic.fault(
            format!("ConfigMap {key}, line {line}: {}", finding.words),
            "name the cluster's DNS in the `forward` line of this block: docs/corefile.md#nodelocal-dnscache",
        );
    }
    topic.or_ok(|| {
        format!(
            "ConfigMap {} asks the cluster's DNS for all names",
            found.key
        )
    })
}

/// The command that adds the missing lines.
fn patch(found: &Found<'_>) -> String {
    format!(
        "egress corefile patch --live --apply --corefile {}",
        found.key
    )
}

/// Compares the addresses of the Services with those in the Corefile. Returns the lines that are there.
fn compare(topic: &mut Topic, found: &Found<'_>, services: &[Endpoints]) -> Vec<Line> {
    let (key, named) = (found.key, endpoints(&found.corefile));
    if named.is_empty() {
        topic.fault(
            format!("ConfigMap {key} has no `dnstap` line: it was never changed, or something reverted it"),
            patch(found),
        );
        return Vec::new();
    }
    let is_of_service = |endpoint: &str| {
        services
            .iter()
            .any(|it| it.all.iter().any(|it| it == endpoint))
    };
    let others: Vec<_> = named.iter().filter(|it| !is_of_service(it)).collect();
    for other in &others {
        topic.warn(
            format!("a `dnstap` line of ConfigMap {key} names {other}, which is no Service of a collector: what is there now receives every DNS answer"),
            format!("if it is an old one: egress corefile patch --live --remove --apply --dnstap {other}"),
        );
    }
    let mut lines = Vec::new();
    for service in services {
        if let Some(endpoint) = service.named(&found.corefile) {
            lines.push(Line {
                endpoint: endpoint.clone(),
                extra: None,
            });
            continue;
        }
        let (name, at) = (&service.service, service.all.join(" and "));
        topic.fault(
            format!("Service {name} is at {at}, and no `dnstap` line of ConfigMap {key} names it"),
            patch(found),
        );
    }
    lines
}

/// Tells what the lines do not show: blocks without one, and plugins that hide names.
fn lint(topic: &mut Topic, found: &Found<'_>, lines: &[Line], scope: &Scope) {
    if lines.is_empty() {
        return;
    }
    // A block without any line has a finding for each.
    let mut blocks = BTreeSet::new();
    for finding in findings(&found.corefile, lines, scope) {
        let seen = format!(
            "ConfigMap {}, line {}: {}",
            found.key, finding.line, finding.words
        );
        if !finding.is_fault {
            topic.warn(seen, "see docs/corefile.md");
        } else if blocks.insert(finding.line) {
            topic.fault(
                seen,
                "add the `dnstap` line of each collector to this block: docs/corefile.md",
            );
        }
    }
}

/// The domains of the cluster's own names.
fn scope(facts: &Facts) -> Scope {
    Scope::new(&facts.settings.cluster_domains)
}

//! The topics before an installation: whether the cluster is fit for it, and which values it needs.

use super::{
    Check, api_server, dns_servers,
    facts::Facts,
    ovn_kubernetes,
    report::{Finding, Topic, counted},
    streaming::{Found, scope},
};

/// The topics, in the order of an installation.
pub(super) const TOPICS: &[Check] = &[
    api_server::api_server,
    resources,
    ovn_kubernetes::before,
    namespaces,
    dns_servers::coredns,
    corefile,
];

fn resources(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("CRDs");
    let mut missing = Vec::new();
    for resource in &facts.resources {
        match &resource.is_served {
            Ok(true) => {}
            Ok(false) => missing.push(resource.name),
            Err(unseen) => topic.unknown(unseen.0.clone(), api_server::REACH),
        }
    }
    topic.or_ok(|| match missing.is_empty() {
        true => "there".to_owned(),
        false => format!("the chart installs {}", missing.join(" and ")),
    })
}

/// The namespaces of the objects and of the chart.
fn namespaces(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Namespaces");
    let objects = &facts.settings.objects_namespace;
    match facts.namespace(objects) {
        Some(Ok(Some(_))) => {}
        Some(Ok(None)) => topic.fault(
            format!("there is no namespace {objects}"),
            "set objectsNamespace to ovn-kubernetes' namespace; --objects-namespace names it here",
        ),
        Some(Err(unseen)) => {
            topic.unknown(unseen.0.clone(), "you need the right to get Namespaces")
        }
        None => topic.unknown(
            format!("namespace {objects} was not looked for"),
            "report this",
        ),
    }
    let own = &facts.namespace;
    match facts.enforced(own) {
        None | Some("privileged") => {}
        Some(level) => topic.warn(
            format!("namespace {own} enforces Pod Security {level}, which refuses the ovn-writer of mode interconnect"),
            format!("for this mode: kubectl label --overwrite namespace {own} pod-security.kubernetes.io/enforce=privileged"),
        ),
    }
    topic.or_ok(|| format!("{objects} is there; {own} refuses no pod"))
}

/// Whether the Corefile can get the lines.
fn corefile(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Corefile");
    let found = facts.dns.corefile.as_ref();
    let Some(found) = found.and_then(|map| Found::read(&mut topic, map)) else {
        return topic.into();
    };
    let blocks = match crate::corefile::parse(&found.text) {
        Ok(corefile) => corefile.blocks,
        Err(error) => {
            topic.fault(
                format!("ConfigMap {}: {error}", found.key),
                "mend this line",
            );
            return topic.into();
        }
    };
    let scope = scope(facts);
    let external = blocks
        .iter()
        .filter(|block| scope.is_external(block))
        .count();
    if external == 0 {
        topic.fault(
            format!("no server block of ConfigMap {} answers for names outside of the cluster", found.key),
            "name the ConfigMap that your DNS servers use: --corefile here, dns.corefile in the chart",
        );
    }
    topic.or_ok(|| {
        format!(
            "{} of ConfigMap {} needs a `dnstap` line for each collector",
            counted(external, "server block"),
            found.key
        )
    })
}

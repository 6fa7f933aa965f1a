//! The relevant content of one EgressFirewall: its names, their retention, and its faults.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use proto::api::{DnsName, EgressFirewall, NameError, RuleType};
use runtime::{args::parse_duration, inspect::text::quoted, store::ObjectKey};

use super::{
    RetentionPolicy, RetentionRules,
    validation::{Fault, Faults},
};
use crate::clients::Namespace;

/// ovn-kubernetes ignores rules beyond these.
pub(super) const MAX_RULES: usize = 8_000;

/// The prefix of annotations that override the flags for the names of an EgressFirewall.
pub(super) const ANNOTATIONS: &str = "dnsnameresolver.network.openshift.io";

/// The least retention of a name in a Deny rule: traffic to an address that is missing in the set
/// is not blocked.
pub(super) const DENY_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// The relevant content of an EgressFirewall.
#[derive(Clone, Debug)]
pub(super) struct Firewall {
    pub(super) key: ObjectKey,
    pub(super) about: ObjectReference,
    pub(super) namespace: Namespace,
    /// Its names in the order in which they are left out: from the last to the first, with those of
    /// Deny rules at the end.
    pub(super) order: Arc<[DnsName]>,
    /// The retention by the annotations.
    terms: RetentionPolicy,
    /// Sorted, without duplicates.
    pub(super) names: Box<[(DnsName, Uses)]>,
    pub(super) faults: Faults,
}

/// The kinds of rules of an EgressFirewall that use a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) allowed: bool,
    pub(super) denied: bool,
    /// The index of the first rule with the name.
    pub(super) index: u16,
    /// The number of rules with the name.
    pub(super) rules: u16,
    /// Each of them is for some ports only.
    pub(super) are_for_ports: bool,
}

impl Firewall {
    pub(super) fn read(
        object: &EgressFirewall,
        namespace: Namespace,
        terms: &RetentionRules,
    ) -> Self {
        let mut faults = Faults::default();
        let terms = annotated(object, terms, &mut faults);
        let mut names: BTreeMap<DnsName, Uses> = BTreeMap::new();
        let mut order: Vec<DnsName> = Vec::new();
        let rules = &object.spec.egress;
        for (index, rule) in (0..).zip(rules.iter().take(MAX_RULES)) {
            let Some(text) = rule.to.dns_name.as_deref() else {
                continue;
            };
            let name = match DnsName::parse(text) {
                Ok(name) => name,
                Err(error) => {
                    let subject = format!("{} ({})", quoted(text), why(&error));
                    faults.add(Fault::NameRefused, subject);
                    continue;
                }
            };
            if !names.contains_key(&name) {
                order.push(name.clone());
            }
            let uses = names.entry(name).or_insert(Uses {
                index,
                are_for_ports: true,
                ..Uses::default()
            });
            uses.rules += 1;
            uses.are_for_ports &= !rule.ports.is_empty();
            match rule.rule_type {
                RuleType::Allow => uses.allowed = true,
                RuleType::Deny => uses.denied = true,
            }
        }
        for (name, uses) in names.iter().filter(|(_, uses)| uses.denied) {
            faults.add(Fault::DenyRuleByName, name.as_str());
            if uses.allowed {
                faults.add(Fault::AllowedAndDenied, name.as_str());
            }
        }
        if let Some(more @ 1..) = rules.len().checked_sub(MAX_RULES) {
            faults.count(Fault::TooManyRules, more);
        }
        let is_denied = |name: &DnsName| names.get(name).is_some_and(|uses| uses.denied);
        let (denied, mut order): (Vec<_>, Vec<_>) =
            order.into_iter().rev().partition(|name| is_denied(name));
        order.extend(denied);
        let mut about = object.object_ref(&());
        // The Event is about the object, not about one of its versions.
        about.resource_version = None;
        Self {
            key: ObjectKey::of(object),
            about,
            namespace,
            order: order.into(),
            terms,
            names: names.into_iter().collect(),
            faults,
        }
    }

    /// The retention of a name in these kinds of rules.
    pub(super) fn terms_of(&self, uses: Uses) -> RetentionPolicy {
        let retain = self.terms.retain;
        RetentionPolicy {
            allowed: uses.allowed,
            denied: uses.denied,
            retain: if uses.denied {
                retain.max(DENY_RETAIN)
            } else {
                retain
            },
            ..self.terms
        }
    }

    /// The kinds of its rules that use the name.
    pub(super) fn uses(&self, name: &DnsName) -> Option<Uses> {
        let found = self.names.binary_search_by(|(known, _)| known.cmp(name));
        let (_, uses) = self.names.get(found.ok()?)?;
        Some(*uses)
    }

    /// The number of rules without effect because of their names.
    pub(super) fn refused(&self) -> usize {
        let refused = self.faults.get(Fault::NameRefused);
        refused.map_or(0, |subjects| subjects.count)
    }
}

/// The flags, overridden by the annotations within the ceilings.
fn annotated(
    object: &EgressFirewall,
    rules: &RetentionRules,
    faults: &mut Faults,
) -> RetentionPolicy {
    let RetentionRules { defaults, ceilings } = rules;
    let mut read = |key: &str, default: Duration, ceiling: Duration| {
        let Some(text) = object.annotations().get(&format!("{ANNOTATIONS}/{key}")) else {
            return default;
        };
        let subject = || format!("{key}: {}", quoted(text));
        match parse_duration(text) {
            Ok(duration) if duration > ceiling => {
                let held = format!("{} (counts as {ceiling:?})", subject());
                faults.add(Fault::AnnotationClamped, held);
                ceiling
            }
            Ok(duration) => duration,
            Err(_) => {
                faults.add(Fault::AnnotationIgnored, subject());
                default
            }
        }
    };
    RetentionPolicy {
        grace: read("grace", defaults.grace, ceilings.grace),
        min_ttl: read("min-ttl", defaults.min_ttl, ceilings.min_ttl),
        retain: read("retain", defaults.retain, ceilings.retain),
        ..*defaults
    }
}

/// The error of a name, without the name's own text.
fn why(error: &NameError) -> String {
    match error {
        NameError::Label(label) => NameError::Label(quoted(label)).to_string(),
        error => error.to_string(),
    }
}

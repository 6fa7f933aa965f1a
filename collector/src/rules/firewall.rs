//! What matters of one EgressFirewall: the names in it, on which terms, and what is wrong with it.

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

/// Annotations of an EgressFirewall that override the flags for the names in it.
pub(super) const ANNOTATIONS: &str = "dnsnameresolver.network.openshift.io";

/// A name in a Deny rule is kept at least this long after it was last in an answer: while an address is missing it is open.
pub(super) const DENY_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// An EgressFirewall.
#[derive(Clone, Debug)]
pub(super) struct Firewall {
    pub(super) key: ObjectKey,
    pub(super) about: ObjectReference,
    pub(super) namespace: Namespace,
    /// Its names in the order in which they are left out: the last first, and those of Deny rules last.
    pub(super) order: Arc<[DnsName]>,
    /// Of all its names, whatever the rules.
    terms: RetentionPolicy,
    /// In order, each once.
    pub(super) names: Box<[(DnsName, Uses)]>,
    pub(super) faults: Faults,
}

/// In which rules of an EgressFirewall a name stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) allowed: bool,
    pub(super) denied: bool,
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
        for rule in rules.iter().take(MAX_RULES) {
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
            let uses = names.entry(name).or_default();
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
        // The Event is about the object and not about one version of it.
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

    /// The terms of a name that stands in these rules.
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

    /// In which of its rules a name stands, if in any.
    pub(super) fn uses(&self, name: &DnsName) -> Option<Uses> {
        let found = self.names.binary_search_by(|(known, _)| known.cmp(name));
        let (_, uses) = self.names.get(found.ok()?)?;
        Some(*uses)
    }

    /// How many of its rules have no effect because of their names.
    pub(super) fn refused(&self) -> usize {
        let refused = self.faults.get(Fault::NameRefused);
        refused.map_or(0, |subjects| subjects.count)
    }
}

/// The flags, overridden by the annotations as far as these may go.
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

/// What is wrong with a name, without a text that somebody wrote as it is.
fn why(error: &NameError) -> String {
    match error {
        NameError::Label(label) => NameError::Label(quoted(label)).to_string(),
        error => error.to_string(),
    }
}

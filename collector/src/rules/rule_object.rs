//! The relevant content of one object with names in its rules: the names, their retention, and the
//! faults.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::{
    api::{DnsName, NameError, RuleType},
    text::quoted,
};
use runtime::store::ObjectKey;

use super::{
    RetentionPolicy, RuleSource, Source,
    validation::{Fault, Faults},
};
use names::Namespace;

/// The least retention of a name in a Deny rule, unless it is strict (0): traffic to an address that
/// is missing in the set is not blocked.
pub(super) const DENY_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// The relevant content of an object with names in its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleObject {
    pub(super) source: Source,
    pub(super) key: ObjectKey,
    pub(super) about: ObjectReference,
    pub(super) namespace: Namespace,
    /// The retention by the flags and the annotations.
    retention: RetentionPolicy,
    /// Sorted, without duplicates.
    pub(super) names: Box<[(DnsName, Uses)]>,
    /// The number of its rules with a name, also those without effect.
    pub(super) size: usize,
    pub(super) faults: Faults,
}

/// The kinds of rules of an object that use a name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

/// A rule with a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameRule<'a> {
    /// Its index among the rules of the object.
    pub(super) index: u16,
    /// The name as the author wrote it.
    pub(super) name: &'a str,
    pub(super) rule_type: RuleType,
    /// It is for some ports only.
    pub(super) is_for_ports: bool,
}

impl RuleObject {
    /// Adds up the rules of an object.
    pub(super) fn new<'a, K: RuleSource>(
        object: &K,
        namespace: Namespace,
        retention: RetentionPolicy,
        mut faults: Faults,
        rules: impl Iterator<Item = NameRule<'a>>,
    ) -> Self {
        let mut names: BTreeMap<DnsName, Uses> = BTreeMap::new();
        let mut size = 0;
        for rule in rules {
            size += 1;
            let name = match DnsName::parse(rule.name) {
                Ok(name) => name,
                Err(error) => {
                    let subject = format!("{} ({})", quoted(rule.name), why(&error));
                    faults.add(Fault::NameRefused, subject);
                    continue;
                }
            };
            let uses = names.entry(name).or_insert(Uses {
                index: rule.index,
                are_for_ports: true,
                ..Uses::default()
            });
            uses.rules += 1;
            uses.are_for_ports &= rule.is_for_ports;
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
        let mut about = object.object_ref(&());
        // The Event is about the object, not about one of its versions.
        about.resource_version = None;
        Self {
            source: K::SOURCE,
            key: ObjectKey::of(object),
            about,
            namespace,
            retention,
            names: names.into_iter().collect(),
            size,
            faults,
        }
    }

    /// Takes the names out, as the namespace has too many.
    pub(super) fn leave_out(&mut self) {
        self.names = Box::default();
        self.faults = Faults::default();
        self.faults.count(Fault::ObjectLeftOut, self.size);
    }

    pub(super) fn is_left_out(&self) -> bool {
        self.faults.get(Fault::ObjectLeftOut).is_some()
    }

    /// The number of its names, unless it is left out.
    pub(super) fn names_read(&self) -> usize {
        if self.is_left_out() { 0 } else { self.size }
    }

    /// The retention of a name in these kinds of rules.
    pub(super) fn terms_of(&self, uses: Uses) -> RetentionPolicy {
        let retain = self.retention.retain;
        RetentionPolicy {
            allowed: uses.allowed,
            denied: uses.denied,
            retain: if uses.denied && !retain.is_zero() {
                retain.max(DENY_RETAIN)
            } else {
                retain
            },
            ..self.retention
        }
    }

    /// The retention of one of its names.
    pub(super) fn retention_of(&self, name: &DnsName) -> Option<RetentionPolicy> {
        self.uses(name).map(|uses| self.terms_of(uses))
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

/// The error of a name, without the name's own text.
fn why(error: &NameError) -> String {
    match error {
        NameError::Label(label) => NameError::Label(quoted(label)).to_string(),
        error => error.to_string(),
    }
}

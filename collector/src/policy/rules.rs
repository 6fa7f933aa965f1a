//! The rules of all EgressFirewalls: the names in them, and on which terms.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use proto::api::{DnsName, EgressFirewall, NameError, RuleType};
use runtime::{args::parse_duration, store::ObjectKey};
use tokio::time::Instant;

use super::{
    DnsRules, Terms, TermsRules,
    absence::Absences,
    faults::{Fault, Faults, Subjects, quoted},
    uses::{self, NameUses, RuleUse, UsesAsked},
};
use crate::clients::{Clients, Namespace};

/// ovn-kubernetes ignores rules beyond these.
pub(super) const MAX_RULES: usize = 8_000;

/// Annotations of an EgressFirewall that override the flags for the names in it.
pub(super) const ANNOTATIONS: &str = "dnsnameresolver.network.openshift.io";

/// A name in a Deny rule is kept at least this long after it was last in an answer: while an address is missing it is open.
pub(super) const DENY_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// The EgressFirewalls.
#[derive(Debug, Default)]
pub(super) struct Rules {
    terms: TermsRules,
    /// Who numbers the namespaces.
    clients: Clients,
    firewalls: BTreeMap<ObjectKey, Firewall>,
    /// Those that went.
    pub(super) absences: Absences,
    /// Those whose faults changed.
    changed: BTreeSet<ObjectKey>,
}

/// What matters of an EgressFirewall.
#[derive(Clone, Debug)]
pub(super) struct Firewall {
    pub(super) about: ObjectReference,
    namespace: Namespace,
    /// Its names in the order in which they are left out: the last first, and those of Deny rules last.
    order: Arc<[DnsName]>,
    /// Of all its names, whatever the rules.
    terms: Terms,
    /// In order, each once.
    names: Box<[(DnsName, Uses)]>,
    pub(super) faults: Faults,
}

/// In which rules of an EgressFirewall a name stands.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    allowed: bool,
    denied: bool,
}

impl Rules {
    pub(super) fn new(terms: TermsRules, clients: Clients) -> Self {
        Self {
            terms,
            clients,
            ..Self::default()
        }
    }

    pub(super) fn apply(&mut self, object: &EgressFirewall) {
        let key = ObjectKey::of(object);
        let mut firewall = Firewall::read(object, self.clients.number(&key.namespace), &self.terms);
        let known = self.firewalls.get(&key);
        if let Some(known) = known {
            // It depends on the others: see `settle`.
            let elsewhere = known.faults.get(Fault::DeniedElsewhere).cloned();
            firewall.faults.replace(Fault::DeniedElsewhere, elsewhere);
        }
        if known.is_none_or(|known| known.faults != firewall.faults) {
            self.changed.insert(key.clone());
        }
        self.absences.remove(&key);
        self.firewalls.insert(key, firewall);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(firewall) = self.firewalls.remove(key) {
            self.absences.add(key.clone(), firewall, now);
        }
    }

    /// These are all there are, and what is known of those that cannot be read.
    pub(super) fn reset(
        &mut self,
        objects: &[EgressFirewall],
        unreadable: &BTreeSet<ObjectKey>,
        now: Instant,
    ) {
        let mut keys = unreadable.clone();
        keys.extend(objects.iter().map(ObjectKey::of));
        let gone = self.firewalls.keys().filter(|key| !keys.contains(key));
        let gone: Vec<ObjectKey> = gone.cloned().collect();
        for key in gone {
            self.remove(&key, now);
        }
        for object in objects {
            self.apply(object);
        }
    }

    /// These are there and cannot be read: what was known of them holds.
    pub(super) fn keep(&mut self, unreadable: &BTreeSet<ObjectKey>) {
        for key in unreadable {
            if let Some(firewall) = self.absences.remove(key) {
                self.firewalls.insert(key.clone(), firewall);
            }
        }
    }

    /// The names of all EgressFirewalls, and in each of these what follows from the others.
    pub(super) fn settle(&mut self) -> BTreeMap<DnsName, Terms> {
        let mut all: BTreeMap<DnsName, Terms> = BTreeMap::new();
        for firewall in self.firewalls.values() {
            for (name, terms) in firewall.names() {
                all.entry(name.clone()).or_default().join(terms);
            }
        }
        let contested = all
            .iter()
            .filter(|(_, terms)| terms.allowed && terms.denied);
        let contested: BTreeSet<&DnsName> = contested.map(|(name, _)| name).collect();
        for (key, firewall) in &mut self.firewalls {
            let elsewhere = firewall.denied_elsewhere(&contested);
            if firewall.faults.get(Fault::DeniedElsewhere) != elsewhere.as_ref() {
                firewall.faults.replace(Fault::DeniedElsewhere, elsewhere);
                self.changed.insert(key.clone());
            }
        }
        all
    }

    /// The names, each with the namespaces that have it in a rule.
    pub(super) fn namespaces(&self) -> BTreeMap<DnsName, Box<[Namespace]>> {
        let mut all: BTreeMap<&DnsName, Vec<Namespace>> = BTreeMap::new();
        for firewall in self.firewalls.values() {
            for (name, _) in &firewall.names {
                all.entry(name).or_default().push(firewall.namespace);
            }
        }
        let sorted = all.into_iter().map(|(name, mut namespaces)| {
            namespaces.sort_unstable();
            namespaces.dedup();
            (name.clone(), namespaces.into())
        });
        sorted.collect()
    }

    /// Of each namespace its names, in the order in which they are left out.
    pub(super) fn order(&self) -> BTreeMap<Namespace, Arc<[DnsName]>> {
        let mut all: BTreeMap<Namespace, Arc<[DnsName]>> = BTreeMap::new();
        for firewall in self.firewalls.values() {
            let order = all.entry(firewall.namespace).or_default();
            *order = match order.is_empty() {
                true => Arc::clone(&firewall.order),
                // A folder may have several of a namespace.
                false => firewall.order.iter().chain(&**order).cloned().collect(),
            };
        }
        all
    }

    /// Those whose faults changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Firewall> {
        self.firewalls.get(key)
    }

    /// The EgressFirewalls with rules for these very names.
    pub(super) fn uses(&self, asked: &UsesAsked) -> Vec<NameUses> {
        let namespace = asked.namespace.as_deref();
        let is_asked = |rule: &RuleUse| {
            namespace.is_none_or(|namespace| rule.egress_firewall.namespace == namespace)
        };
        let uses = |name: &DnsName| {
            let firewalls = self.firewalls.iter();
            let all = firewalls.filter_map(|(key, firewall)| {
                let Uses { allowed, denied } = firewall.uses(name)?;
                Some(RuleUse {
                    egress_firewall: key.clone(),
                    allowed,
                    denied,
                })
            });
            let mut uses = NameUses::default();
            for rule in all {
                match (is_asked(&rule), uses.rules.len() < uses::MOST) {
                    (false, _) => uses.elsewhere += 1,
                    (true, true) => uses.rules.push(rule),
                    (true, false) => uses.more += 1,
                }
            }
            uses
        };
        asked.names.iter().map(uses).collect()
    }

    /// The EgressFirewalls with rules for this very name.
    pub(super) fn using(&self, name: &DnsName) -> impl Iterator<Item = &ObjectReference> {
        let firewalls = self.firewalls.values();
        let using = firewalls.filter(|firewall| firewall.uses(name).is_some());
        using.map(|firewall| &firewall.about)
    }

    /// The EgressFirewalls that deny this very name.
    pub(super) fn denying(&self, name: &DnsName) -> impl Iterator<Item = &ObjectReference> {
        let denies = |firewall: &&Firewall| firewall.uses(name).is_some_and(|uses| uses.denied);
        let denying = self.firewalls.values().filter(denies);
        denying.map(|firewall| &firewall.about)
    }

    /// The namespaces with rules by name.
    pub(super) fn dns(&self) -> BTreeMap<String, DnsRules> {
        let of = |(key, firewall): (&ObjectKey, &Firewall)| {
            let dots = |name: &DnsName| name.as_str().matches('.').count() - 1;
            let fewest = firewall.names.iter().map(|(name, _)| dots(name)).min()?;
            let rules = DnsRules {
                about: firewall.about.clone(),
                fewest_dots: fewest,
            };
            Some((key.namespace.clone(), rules))
        };
        self.firewalls.iter().filter_map(of).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.firewalls.len()
    }

    /// Those that have faults.
    pub(super) fn faulty(&self) -> impl Iterator<Item = (&ObjectKey, &Faults)> {
        let faults = self.firewalls.iter().map(|(key, f)| (key, &f.faults));
        faults.filter(|(_, faults)| !faults.is_empty())
    }

    /// How many rules have no effect because of their names.
    pub(super) fn refused(&self) -> usize {
        let refused = self.faulty().filter_map(|(_, f)| f.get(Fault::NameRefused));
        refused.map(|subjects| subjects.count).sum()
    }
}

impl Firewall {
    fn read(object: &EgressFirewall, namespace: Namespace, terms: &TermsRules) -> Self {
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
        // It is about the object, whatever becomes of it.
        about.resource_version = None;
        Self {
            about,
            namespace,
            order: order.into(),
            terms,
            names: names.into_iter().collect(),
            faults,
        }
    }

    /// Its names, each with its terms.
    pub(super) fn names(&self) -> impl Iterator<Item = (&DnsName, Terms)> {
        let names = self.names.iter();
        names.map(|(name, uses)| (name, self.terms_of(*uses)))
    }

    /// The terms of a name that stands in these rules.
    fn terms_of(&self, uses: Uses) -> Terms {
        let retain = self.terms.retain;
        Terms {
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
    fn uses(&self, name: &DnsName) -> Option<Uses> {
        let found = self.names.binary_search_by(|(known, _)| known.cmp(name));
        let (_, uses) = self.names.get(found.ok()?)?;
        Some(*uses)
    }

    fn denied_elsewhere(&self, contested: &BTreeSet<&DnsName>) -> Option<Subjects> {
        let mut faults = Faults::default();
        for name in contested {
            if self.uses(name).is_some_and(|uses| !uses.denied) {
                faults.add(Fault::DeniedElsewhere, name.as_str());
            }
        }
        faults.get(Fault::DeniedElsewhere).cloned()
    }
}

/// The flags, overridden by the annotations as far as these may go.
fn annotated(object: &EgressFirewall, rules: &TermsRules, faults: &mut Faults) -> Terms {
    let TermsRules { defaults, ceilings } = rules;
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
    Terms {
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

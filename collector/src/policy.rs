//! Which names are in use, by the EgressFirewalls of all namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use anyhow::bail;
use futures_util::StreamExt;
use kube::ResourceExt;
use proto::api::{DnsName, EgressFirewall, RuleType};
use runtime::{
    admin::Gate,
    args::parse_duration,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::state::Limits;

/// ovn-kubernetes ignores rules beyond these.
const MAX_RULES: usize = 8_000;

/// Annotations of an EgressFirewall that override the flags for the names in it.
const ANNOTATIONS: &str = "dnsnameresolver.network.openshift.io";

/// A name in a Deny rule is kept at least this long after it was last in an answer: while an address is missing it is open.
const DENY_RETAIN: Duration = Duration::from_secs(24 * 3600);

/// The names in use. Until the first list of EgressFirewalls is there, nothing is known of what is not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// Every name that a rule names and that can be an object.
    pub names: BTreeMap<DnsName, Terms>,
    /// Whether `names` is complete, so that what is not in it is not in use.
    pub in_sync: bool,
}

/// On which terms the addresses of a name are kept: of all EgressFirewalls that use it the largest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Terms {
    /// `--grace`, or the annotation `…/grace`.
    pub grace: Duration,
    /// `--min-ttl`, or the annotation `…/min-ttl`.
    pub min_ttl: Duration,
    /// `--retain`, or the annotation `…/retain`.
    pub retain: Duration,
    /// It stands in an Allow rule.
    pub allowed: bool,
    /// It stands in a Deny rule.
    pub denied: bool,
}

impl Terms {
    /// The bounds for a name on these terms.
    pub fn limits(&self, base: &Limits) -> Limits {
        Limits {
            grace: self.grace,
            min_ttl: self.min_ttl,
            retain: self.retain,
            protected: self.denied,
            ..base.clone()
        }
    }

    fn join(&mut self, other: Self) {
        self.grace = self.grace.max(other.grace);
        self.min_ttl = self.min_ttl.max(other.min_ttl);
        self.retain = self.retain.max(other.retain);
        self.allowed |= other.allowed;
        self.denied |= other.denied;
    }
}

/// The names by EgressFirewall.
#[derive(Debug, Default)]
struct Rules {
    /// What the flags say.
    defaults: Terms,
    firewalls: BTreeMap<ObjectKey, BTreeMap<DnsName, Terms>>,
    /// What is wrong with each EgressFirewall, as it was last reported.
    faults: BTreeMap<ObjectKey, BTreeSet<Fault>>,
}

/// A rule, or an annotation, that is not as it was meant.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Fault {
    /// The name of a rule can be no DNSNameResolver: the rule has no effect.
    Name(String),
    /// The name stands in a Deny rule: what is not known yet is open.
    Denied(DnsName),
    /// The name stands in an Allow and in a Deny rule of the same EgressFirewall.
    Both(DnsName),
    /// An annotation is no duration.
    Annotation(String),
    /// Rules over the limit.
    TooMany(usize),
}

impl Fault {
    fn report(&self, key: &ObjectKey) {
        match self {
            Self::Name(name) => {
                let error = DnsName::parse(name).err().map(|error| error.to_string());
                warn!(egress_firewall = %key, ?name, error, "rule skipped: its name cannot be a DNSNameResolver");
            }
            Self::Denied(name) => {
                warn!(egress_firewall = %key, %name, "Deny rule by name: an address is open until it was seen in an answer");
            }
            Self::Both(name) => {
                warn!(egress_firewall = %key, %name, "the name stands in an Allow and in a Deny rule")
            }
            Self::Annotation(text) => {
                warn!(egress_firewall = %key, annotation = ?text, "annotation ignored: it is no duration such as 30s")
            }
            Self::TooMany(rules) => {
                warn!(egress_firewall = %key, rules, limit = MAX_RULES, "rules over the limit are ignored")
            }
        }
    }
}

impl Rules {
    fn apply(&mut self, firewall: &EgressFirewall) {
        let key = ObjectKey::of(firewall);
        let mut faults = BTreeSet::new();
        let defaults = self.terms(firewall, &mut faults);
        let mut names: BTreeMap<DnsName, Terms> = BTreeMap::new();
        let rules = &firewall.spec.egress;
        for rule in rules.iter().take(MAX_RULES) {
            let Some(text) = rule.to.dns_name.as_deref() else {
                continue;
            };
            let Ok(name) = DnsName::parse(text) else {
                faults.insert(Fault::Name(text.to_owned()));
                continue;
            };
            let denied = rule.rule_type == RuleType::Deny;
            let mut terms = Terms {
                allowed: !denied,
                denied,
                ..defaults
            };
            if denied {
                terms.retain = terms.retain.max(DENY_RETAIN);
                faults.insert(Fault::Denied(name.clone()));
            }
            names.entry(name).or_default().join(terms);
        }
        let both = names
            .iter()
            .filter(|(_, terms)| terms.allowed && terms.denied);
        faults.extend(both.map(|(name, _)| Fault::Both(name.clone())));
        if rules.len() > MAX_RULES {
            faults.insert(Fault::TooMany(rules.len()));
        }
        let known = self.faults.get(&key);
        for fault in faults
            .iter()
            .filter(|fault| !known.is_some_and(|known| known.contains(fault)))
        {
            fault.report(&key);
        }
        self.firewalls.insert(key.clone(), names);
        self.faults.insert(key, faults);
    }

    /// The flags, overridden by the annotations.
    fn terms(&self, firewall: &EgressFirewall, faults: &mut BTreeSet<Fault>) -> Terms {
        let mut read = |key: &str, default: Duration| {
            let Some(text) = firewall.annotations().get(&format!("{ANNOTATIONS}/{key}")) else {
                return default;
            };
            parse_duration(text).unwrap_or_else(|_| {
                faults.insert(Fault::Annotation(format!("{key}: {text}")));
                default
            })
        };
        Terms {
            grace: read("grace", self.defaults.grace),
            min_ttl: read("min-ttl", self.defaults.min_ttl),
            retain: read("retain", self.defaults.retain),
            ..self.defaults
        }
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.firewalls.remove(key);
        self.faults.remove(key);
    }

    fn reset(&mut self, firewalls: &[EgressFirewall]) {
        let keys: BTreeSet<ObjectKey> = firewalls.iter().map(ObjectKey::of).collect();
        self.firewalls.retain(|key, _| keys.contains(key));
        self.faults.retain(|key, _| keys.contains(key));
        for firewall in firewalls {
            self.apply(firewall);
        }
    }

    fn names(&self) -> BTreeMap<DnsName, Terms> {
        let mut all: BTreeMap<DnsName, Terms> = BTreeMap::new();
        for (name, terms) in self.firewalls.values().flatten() {
            all.entry(name.clone()).or_default().join(*terms);
        }
        all
    }

    fn refused(&self) -> usize {
        let names = |faults: &BTreeSet<Fault>| {
            faults
                .iter()
                .filter(|fault| matches!(fault, Fault::Name(_)))
                .count()
        };
        self.faults.values().map(names).sum()
    }
}

/// Follows the EgressFirewalls and publishes the names in use, until `shutdown`.
///
/// # Errors
/// The watch ended, which a store's never does.
pub async fn run<S: Store>(
    store: S,
    defaults: Terms,
    wanted: watch::Sender<Wanted>,
    gate: Gate,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut rules = Rules {
        defaults,
        ..Rules::default()
    };
    // Whether the rules are those of the store, but for EgressFirewalls that do not decode.
    let mut in_sync = false;
    // How many of them were never known. Names that no other uses may be theirs.
    let mut unknown = 0;
    let mut events = pin!(store.watch::<EgressFirewall>(Scope::All));
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            event = events.next() => event,
        };
        match event {
            None => bail!("the watch of EgressFirewalls ended"),
            Some(Event::Synced(firewalls)) => {
                info!(
                    egress_firewalls = firewalls.len(),
                    "EgressFirewalls are in sync"
                );
                rules.reset(&firewalls);
                gate.ready();
                in_sync = true;
            }
            Some(Event::Applied(firewall)) => rules.apply(&firewall),
            Some(Event::Deleted(key)) => rules.remove(&key),
            Some(Event::Undecodable(keys)) => {
                unknown = keys.len();
                for key in keys {
                    warn!(egress_firewall = %key, "no object is deleted until this EgressFirewall can be read");
                }
            }
            Some(Event::OutOfSync(reason)) => {
                warn!(%reason, "EgressFirewalls cannot be read; the names in use stay as they are");
                gate.not_ready(reason);
                in_sync = false;
            }
        }
        metrics::gauge!("collector_egress_firewall_names_refused").set(rules.refused() as f64);
        wanted.send_if_modified(|current| {
            let next = Wanted {
                names: rules.names(),
                in_sync: in_sync && unknown == 0,
            };
            let changed = *current != next;
            *current = next;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firewall(namespace: &str, names: &[&str]) -> EgressFirewall {
        let rules: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({"type": "Allow", "to": {"dnsName": name}}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "EgressFirewall",
            "metadata": {"name": "default", "namespace": namespace},
            "spec": {"egress": rules},
        }))
        .unwrap()
    }

    fn texts(rules: &Rules) -> Vec<String> {
        rules.names().keys().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_normalised_and_shared_between_namespaces() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["WWW.Example.com", "*.example.com."]));
        rules.apply(&firewall("b", &["www.example.com."]));
        assert_eq!(texts(&rules), ["*.example.com.", "www.example.com."]);
        rules.remove(&ObjectKey {
            namespace: "a".into(),
            name: "default".into(),
        });
        assert_eq!(texts(&rules), ["www.example.com."]);
    }

    #[test]
    fn a_bad_name_costs_only_itself() {
        let mut rules = Rules::default();
        rules.apply(&firewall(
            "a",
            &["localhost", "a_b.example.com", "www.example.com"],
        ));
        assert_eq!(texts(&rules), ["www.example.com."]);
        assert_eq!(rules.refused(), 2);
    }

    #[test]
    fn an_edit_replaces_the_names_of_its_egress_firewall() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["one.example.com"]));
        rules.apply(&firewall("a", &["two.example.com"]));
        assert_eq!(texts(&rules), ["two.example.com."]);
    }

    #[test]
    fn a_new_list_forgets_what_it_lacks() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["one.example.com"]));
        rules.reset(&[firewall("b", &["two.example.com"])]);
        assert_eq!(texts(&rules), ["two.example.com."]);
    }

    #[test]
    fn annotations_override_the_flags_and_the_largest_wins() {
        let seconds = Duration::from_secs;
        let defaults = Terms {
            grace: seconds(5),
            min_ttl: seconds(5),
            ..Terms::default()
        };
        let mut rules = Rules {
            defaults,
            ..Rules::default()
        };
        let mut long = firewall("a", &["www.example.com", "api.example.com"]);
        let annotate = |firewall: &mut EgressFirewall, key: &str, value: &str| {
            firewall
                .annotations_mut()
                .insert(format!("{ANNOTATIONS}/{key}"), value.to_owned());
        };
        annotate(&mut long, "grace", "1m");
        annotate(&mut long, "min-ttl", "1s");
        annotate(&mut long, "retain", "soon");
        rules.apply(&long);
        rules.apply(&firewall("b", &["www.example.com"]));
        let names = rules.names();
        let terms = |text: &str| {
            let terms = names[&DnsName::parse(text).unwrap()];
            (
                terms.grace.as_secs(),
                terms.min_ttl.as_secs(),
                terms.retain.as_secs(),
            )
        };
        assert_eq!(terms("api.example.com"), (60, 1, 0));
        assert_eq!(terms("www.example.com"), (60, 5, 0));
        let faults = rules.faults.values().flatten().collect::<Vec<_>>();
        assert_eq!(faults, [&Fault::Annotation("retain: soon".to_owned())]);
    }

    #[test]
    fn a_name_in_a_deny_rule_is_kept_for_a_day_and_reported() {
        let mut denied = firewall("a", &["www.example.com", "www.example.com"]);
        denied.spec.egress[0].rule_type = RuleType::Deny;
        let mut rules = Rules::default();
        rules.apply(&denied);
        let name = DnsName::parse("www.example.com").unwrap();
        let terms = rules.names()[&name];
        assert!(terms.allowed && terms.denied);
        assert_eq!(terms.retain, DENY_RETAIN);
        let faults = rules.faults.values().flatten().cloned().collect::<Vec<_>>();
        assert_eq!(faults, [Fault::Denied(name.clone()), Fault::Both(name)]);
    }
}

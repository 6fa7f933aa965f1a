//! Events on objects with rules: their faults, and what else their authors must know.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use names::{Namespace, NamespaceCaps};
use proto::api::DnsName;
use runtime::{
    kube_events::{Reporter, Severity},
    store::ObjectKey,
};

use super::{RuleSource, notices::Notice, rule_object::RuleObject, rule_set::Rules};
use crate::publish::guards::advice;

/// Raises Events on objects with rules.
#[derive(Debug)]
pub(super) struct RuleEvents(Reporter);

impl RuleEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self(reporter)
    }

    /// Reports the faults of these, which changed. `unreadable` are those that never could be decoded.
    pub(super) fn report_faults<K: RuleSource>(
        &self,
        keys: impl IntoIterator<Item = ObjectKey>,
        rules: &Rules,
        unreadable: &BTreeSet<ObjectKey>,
    ) {
        for key in keys {
            match rules.get(&key) {
                Some(rule_object) => self.report(rule_object, None),
                None if unreadable.contains(&key) => {
                    self.warn(key.reference::<K>(), "Unreadable", undecodable::<K>());
                }
                None => {}
            }
        }
    }

    /// Reports a notice to the authors of the rules that it concerns.
    pub(super) fn report_notice(&self, notice: &Notice, rules: &Rules) {
        match notice {
            Notice::Refused(name, reason) => {
                for rule_name in [Some(name.clone()), name.wildcard()].into_iter().flatten() {
                    let note = refused(&rule_name, reason);
                    self.warn_all(rules.using(&rule_name), "AddressRefused", &note);
                }
            }
            Notice::DeniedLeftOut(name) => {
                let note = format!(
                    "{name}, which a rule denies, has more addresses than are kept: traffic to the others is not blocked. A Deny rule by name is \
                     no barrier to a pod that queries many names: deny a CIDR instead"
                );
                self.warn_all(rules.denying(name), "DeniedAddressesLeftOut", &note);
            }
            Notice::AtCap(namespace) => self.report_cap(*namespace, rules),
        }
    }

    /// Reports to the authors of a namespace's rules that it is at a cap, beside the faults.
    fn report_cap(&self, namespace: Namespace, rules: &Rules) {
        for rule_object in rules.of_namespace(namespace) {
            self.report(rule_object, Some(namespace_at_cap()));
        }
    }

    fn report(&self, rule_object: &RuleObject, cap: Option<(&'static str, String)>) {
        let faults = rule_object.faults.notes();
        let faults = faults.map(|(fault, note)| (fault.reason(), note));
        for (reason, note) in faults.chain(cap) {
            self.warn(rule_object.about.clone(), reason, note);
        }
    }

    /// Reports to some objects with rules.
    fn warn_all<'a>(
        &self,
        about: impl Iterator<Item = &'a ObjectReference>,
        reason: &'static str,
        note: &str,
    ) {
        for about in about {
            self.warn(about.clone(), reason, note.to_owned());
        }
    }

    fn warn(&self, about: ObjectReference, reason: &'static str, note: String) {
        self.0.report(about, Severity::Warning, reason, note);
    }
}

/// The note for an object that cannot be decoded.
fn undecodable<K: RuleSource>() -> String {
    let (source, kind, version) = (K::SOURCE, K::kind(&()), K::api_version(&()));
    let resource = kind.to_ascii_lowercase();
    format!(
        "the collector cannot decode this {source}. Compare its fields with `kubectl explain {resource}.spec --api-version={version} --recursive`; the \
         administrator finds the reason in the collector's log. Names that no other {source} has get no new addresses, and lose the known \
         ones after ten minutes"
    )
}

/// The reason and the note for a namespace at a cap.
fn namespace_at_cap() -> (&'static str, String) {
    let NamespaceCaps {
        names,
        wildcards,
        addresses,
    } = NamespaceCaps::default();
    let note = format!(
        "this namespace or policy is at a cap: {names} names or {wildcards} wildcards in rules, or {addresses} addresses of names. The \
         collector leaves further names and addresses out: an Allow rule opens nothing for them, and a Deny rule blocks nothing. Use fewer \
         names. `egress explain NAME` shows what is left out"
    );
    ("LimitExceeded", note)
}

/// Has the name of the rule: the owner of a zone can make up any number of names under a wildcard.
fn refused(rule_name: &DnsName, reason: &str) -> String {
    let what = if rule_name.is_wildcard() {
        "a name under "
    } else {
        ""
    };
    let note = format!(
        "an answer for {what}{rule_name} has an address ({reason}) that the collector refuses, whatever the rules say. Other \
         addresses of the name are not affected. Either the zone is misconfigured, or its owner tries to reach addresses of others (DNS \
         rebinding). `egress explain` shows the address"
    );
    match advice(reason) {
        Some(advice) => format!("{note}. For an administrator: {advice}"),
        None => note,
    }
}

#[cfg(test)]
mod tests {
    use names::Namespaces;
    use proto::api::RuleType;

    use super::{
        super::{RetentionPolicy, tests::firewall},
        *,
    };

    #[test]
    fn namespace_at_a_cap_gets_an_event_with_the_caps() {
        let reporter = Reporter::default();
        let namespaces = Namespaces::default();
        let rule_events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::new(RetentionPolicy::default(), namespaces.clone());
        for namespace in ["team", "other"] {
            rules.apply(&firewall(namespace, &["www.example.com"]));
        }
        let notice = Notice::AtCap(namespaces.number("team"));
        rule_events.report_notice(&notice, &rules);
        let [report] = <[_; 1]>::try_from(reporter.take()).unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("team"));
        assert_eq!(report.reason, "LimitExceeded");
        assert!(
            report.note.contains("10000 names or 100 wildcards"),
            "{report:?}"
        );
    }

    #[test]
    fn denied_addresses_are_reported_to_deny_rules_alone() {
        let reporter = Reporter::default();
        let rule_events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::new(RetentionPolicy::default(), Namespaces::default());
        let mut denying = firewall("denying", &["*.example.com"]);
        denying.spec.egress[0].rule_type = RuleType::Deny;
        for firewall in [&denying, &firewall("allowing", &["*.example.com"])] {
            rules.apply(firewall);
        }
        let wildcard = DnsName::parse("*.example.com").unwrap();
        let notice = Notice::DeniedLeftOut(wildcard);
        rule_events.report_notice(&notice, &rules);
        let [report] = <[_; 1]>::try_from(reporter.take()).unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("denying"));
        assert_eq!(report.reason, "DeniedAddressesLeftOut");
    }

    fn refused(name: &str, reason: &'static str) -> Notice {
        Notice::Refused(DnsName::parse(name).unwrap(), reason)
    }

    #[test]
    fn rule_author_gets_one_rebinding_event_for_many_names() {
        let reporter = Reporter::default();
        let events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::default();
        for (namespace, name) in [("a", "*.wild.example.com"), ("b", "www.example.com")] {
            rules.apply(&firewall(namespace, &[name]));
        }
        for i in 0..1000 {
            let made_up = format!("n{i}.wild.example.com");
            for name in [&made_up, "www.example.com", "other.example.com"] {
                events.report_notice(&refused(name, "loopback"), &rules);
            }
        }
        let notes: Vec<_> = reporter.take().into_iter().map(|it| it.note).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains(" a name under *.wild.example.com. has"));
        assert!(notes[1].contains(" www.example.com. has") && notes[1].contains("loopback"));
    }
}

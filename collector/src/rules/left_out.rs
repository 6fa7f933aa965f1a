//! Reports names that limits leave out to the authors of the rules.

use super::{rule_events::RuleEvents, rule_set::Rules};
use crate::rules::notices::LeftOut;

/// Reports to the authors of the rules.
pub(super) fn report(events: &RuleEvents, rules: &Rules, left_out: &LeftOut) {
    match left_out {
        LeftOut::OfNamespace(namespace) => events.report_cap(*namespace, rules),
        LeftOut::OfDenied(name) => {
            let note = format!(
                "{name}, which a rule denies, has more addresses than are kept: traffic to the others is not blocked. A Deny rule by name is \
                 no barrier to a pod that queries many names: deny a CIDR instead"
            );
            events.warn_all(rules.denying(name), "DeniedAddressesLeftOut", &note);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::api::{DnsName, RuleType};
    use runtime::kube_events::Reporter;

    use super::{
        super::{RetentionPolicy, tests::firewall},
        *,
    };
    use names::Namespaces;

    #[test]
    fn namespace_at_a_cap_gets_an_event_with_the_caps() {
        let reporter = Reporter::default();
        let namespaces = Namespaces::default();
        let rule_events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::new(RetentionPolicy::default(), namespaces.clone());
        for namespace in ["team", "other"] {
            rules.apply(&firewall(namespace, &["www.example.com"]));
        }
        let left_out = LeftOut::OfNamespace(namespaces.number("team"));
        super::report(&rule_events, &rules, &left_out);
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
        let left_out = LeftOut::OfDenied(wildcard);
        super::report(&rule_events, &rules, &left_out);
        let [report] = <[_; 1]>::try_from(reporter.take()).unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("denying"));
        assert_eq!(report.reason, "DeniedAddressesLeftOut");
    }
}

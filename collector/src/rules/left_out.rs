//! Reports names that limits leave out to the authors of the rules.

use tokio::time::Instant;

use super::{name_events::NameEvents, rule_events::RuleEvents, rule_set::Rules};
use crate::notices::LeftOut;

/// Reports to the authors of the rules, unless the same was reported lately.
pub(super) fn tell(
    teller: &mut NameEvents,
    rule_events: &RuleEvents,
    rules: &Rules,
    left_out: &LeftOut,
    now: Instant,
) {
    match left_out {
        LeftOut::OfNamespace(namespace) => rule_events.report_cap(*namespace, rules),
        LeftOut::OfDenied(name) => {
            let note = || {
                format!(
                    "{name}, which a rule denies, has more addresses than are kept: traffic to the others is not blocked. A Deny rule by name is \
                     no barrier to a pod that queries many names: deny a CIDR instead"
                )
            };
            let reason = "DeniedAddressesLeftOut";
            teller.tell(name, (reason, reason), rules.denying(name), note, now);
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
    use crate::namespaces::Namespaces;

    #[test]
    fn namespace_at_a_cap_gets_an_event_with_the_caps() {
        let (reporter, mut reports) = Reporter::with_queue(4);
        let namespaces = Namespaces::default();
        let mut teller = NameEvents::new(reporter.clone());
        let rule_events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::new(RetentionPolicy::default(), namespaces.clone());
        for namespace in ["team", "other"] {
            rules.apply(&firewall(namespace, &["www.example.com"]));
        }
        let left_out = LeftOut::OfNamespace(namespaces.number("team"));
        let now = Instant::now();
        tell(&mut teller, &rule_events, &rules, &left_out, now);
        let report = reports.try_recv().unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("team"));
        assert_eq!(report.reason, "LimitExceeded");
        assert!(
            report.note.contains("10000 names or 100 wildcards"),
            "{report:?}"
        );
        assert!(reports.try_recv().is_err(), "no other namespace is told");
    }

    #[test]
    fn denied_addresses_are_reported_to_deny_rules_alone() {
        let (reporter, mut reports) = Reporter::with_queue(4);
        let mut teller = NameEvents::new(reporter.clone());
        let rule_events = RuleEvents::new(reporter);
        let mut rules = Rules::new(RetentionPolicy::default(), Namespaces::default());
        let mut denying = firewall("denying", &["*.example.com"]);
        denying.spec.egress[0].rule_type = RuleType::Deny;
        for firewall in [&denying, &firewall("allowing", &["*.example.com"])] {
            rules.apply(firewall);
        }
        let wildcard = DnsName::parse("*.example.com").unwrap();
        let left_out = LeftOut::OfDenied(wildcard);
        let now = Instant::now();
        tell(&mut teller, &rule_events, &rules, &left_out, now);
        let report = reports.try_recv().unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("denying"));
        assert_eq!(report.reason, "DeniedAddressesLeftOut");
        assert!(reports.try_recv().is_err());
    }
}

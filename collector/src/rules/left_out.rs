//! Reports names that limits leave out to the authors of the rules.

use tokio::time::Instant;

use super::{name_events::NameEvents, rule_events::RuleEvents, rule_set::Rules};
use crate::notices::{Kind, LeftOut};

/// Reports to the authors of the rules, unless the same was reported lately.
pub(super) fn tell(
    teller: &mut NameEvents,
    rule_events: &mut RuleEvents,
    rules: &Rules,
    left_out: &LeftOut,
    now: Instant,
) {
    let (name, kind) = match left_out {
        LeftOut::OfName(name, kind) => (name, kind),
        LeftOut::OfNamespace(namespace, quota) => {
            return rule_events.over_limit(rules.of_namespace(*namespace), *quota);
        }
    };
    match kind {
        Kind::DeniedAddresses => {
            let note = || {
                format!(
                    "{name}, which a rule denies, has more addresses than are kept: traffic to the others is not blocked. A Deny rule by name is \
                     no barrier to a pod that queries many names: deny a CIDR instead"
                )
            };
            let reason = "DeniedAddressesLeftOut";
            teller.tell(name, (reason, reason), rules.denying(name), note, now);
        }
        Kind::NewNames => {
            let note = || {
                format!(
                    "a client queried new names under {name} faster than --new-names-rate and --new-names-burst allow. The collector ignored \
                     the answers beyond that: these names have no address until a client queries them again. Known names are not affected"
                )
            };
            let reason = "NewNamesRefused";
            teller.tell(name, (reason, reason), rules.using(name), note, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proto::api::{DnsName, EgressFirewall, RuleType};
    use runtime::kube_events::Reporter;

    use super::{
        super::{RetentionPolicy, tests::firewall},
        *,
    };
    use crate::{clients::Clients, namespaces::NamespaceQuota};

    #[test]
    fn a_namespace_over_its_limits_is_told_which_limits_hold_for_it() {
        let (reporter, mut reports) = Reporter::with_queue(4);
        let clients = Clients::default();
        let mut teller = NameEvents::new(reporter.clone());
        let mut rule_events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::new(RetentionPolicy::default(), clients.clone());
        for namespace in ["team", "other"] {
            rules.apply(&firewall(namespace, &["www.example.com"]));
        }
        let quota = NamespaceQuota {
            addresses: 500,
            names: 7,
        };
        let left_out = LeftOut::OfNamespace(clients.number("team"), quota);
        let now = Instant::now();
        tell(&mut teller, &mut rule_events, &rules, &left_out, now);
        rule_events.report::<EgressFirewall>(&rules, &BTreeSet::new());
        let report = reports.try_recv().unwrap();
        assert_eq!(report.about.namespace.as_deref(), Some("team"));
        assert_eq!(report.reason, "LimitExceeded");
        assert!(
            report.note.contains("500 addresses or 7 names"),
            "{report:?}"
        );
        assert!(reports.try_recv().is_err(), "no other namespace is told");
    }

    #[test]
    fn denied_addresses_are_reported_to_deny_rules_and_new_names_to_all() {
        let (reporter, mut reports) = Reporter::with_queue(4);
        let mut teller = NameEvents::new(reporter.clone());
        let mut rule_events = RuleEvents::new(reporter);
        let mut rules = Rules::new(RetentionPolicy::default(), Clients::default());
        let mut denying = firewall("denying", &["*.example.com"]);
        denying.spec.egress[0].rule_type = RuleType::Deny;
        for firewall in [&denying, &firewall("allowing", &["*.example.com"])] {
            rules.apply(firewall);
        }
        let wildcard = DnsName::parse("*.example.com").unwrap();
        let mut told = |kind| {
            let left_out = LeftOut::OfName(wildcard.clone(), kind);
            let now = Instant::now();
            tell(&mut teller, &mut rule_events, &rules, &left_out, now);
            let reports = std::iter::from_fn(|| reports.try_recv().ok());
            let told = reports.map(|it| (it.about.namespace.unwrap(), it.reason));
            told.collect::<BTreeSet<_>>()
        };
        let denied = ("denying".to_owned(), "DeniedAddressesLeftOut");
        assert_eq!(told(Kind::DeniedAddresses), [denied].into());
        let all = ["allowing", "denying"].map(|it| (it.to_owned(), "NewNamesRefused"));
        assert_eq!(told(Kind::NewNames), all.into());
    }
}

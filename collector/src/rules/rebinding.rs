//! Counts answers for wanted names with addresses that the guards refuse, as in DNS rebinding, and
//! reports them to the authors of the rules.

use proto::api::DnsName;

use super::{rule_events::RuleEvents, rule_set::Rules};
use crate::{publish::guards::advice, rules::notices::Rebinding};

/// Reports an attempt to the authors of the rules.
pub(super) fn report(events: &RuleEvents, rules: &Rules, rebinding: &Rebinding) {
    let Rebinding { name, reason, .. } = rebinding;
    for wanted in [Some(name.clone()), name.wildcard()].into_iter().flatten() {
        events.warn_all(
            rules.using(&wanted),
            "AddressRefused",
            &note(&wanted, reason),
        );
    }
}

/// Has the name of the rule: the owner of a zone can make up any number of names under a wildcard.
fn note(wanted: &DnsName, reason: &str) -> String {
    let what = match wanted.is_wildcard() {
        true => "a name under ",
        false => "",
    };
    let note = format!(
        "an answer for {what}{wanted} has an address ({reason}) that the collector refuses, whatever the rules say. Other \
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
    use runtime::kube_events::Reporter;

    use super::{super::tests::firewall, *};

    fn attempt(name: &str, reason: &'static str) -> Rebinding {
        Rebinding {
            name: DnsName::parse(name).unwrap(),
            address: [127, 0, 0, 1].into(),
            reason,
        }
    }

    #[test]
    fn rule_authors_get_one_rebinding_event_however_many_wildcard_names() {
        let reporter = Reporter::default();
        let events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::default();
        for (namespace, name) in [("a", "*.wild.example.com"), ("b", "www.example.com")] {
            rules.apply(&firewall(namespace, &[name]));
        }
        for i in 0..1000 {
            let made_up = format!("n{i}.wild.example.com");
            for name in [&made_up, "www.example.com", "other.example.com"] {
                report(&events, &rules, &attempt(name, "loopback"));
            }
        }
        let notes: Vec<_> = reporter.take().into_iter().map(|it| it.note).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains(" a name under *.wild.example.com. has"));
        assert!(notes[1].contains(" www.example.com. has") && notes[1].contains("loopback"));
    }

    #[test]
    fn refused_node_address_names_the_flag_that_allows_it() {
        let reporter = Reporter::default();
        let events = RuleEvents::new(reporter.clone());
        let mut rules = Rules::default();
        rules.apply(&firewall("team", &["www.example.com"]));
        report(&events, &rules, &attempt("www.example.com", "node"));
        let note = &reporter.take()[0].note;
        assert!(
            note.contains("(node)") && note.ends_with("--allow-node-addresses"),
            "{note}"
        );
    }
}

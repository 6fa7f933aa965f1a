//! Counts answers for wanted names with addresses that the guards refuse, as in DNS rebinding, and
//! reports them to the authors of the rules.

use proto::api::DnsName;
use tokio::time::Instant;

use super::{name_events::NameEvents, rule_set::Rules};
use crate::{guards::advice, notices::Rebinding};

/// Reports an attempt to the authors, unless the same was reported lately.
pub(super) fn tell(teller: &mut NameEvents, rules: &Rules, rebinding: &Rebinding, now: Instant) {
    let Rebinding { name, reason, .. } = rebinding;
    for wanted in [Some(name.clone()), name.wildcard()].into_iter().flatten() {
        let note = || note(&wanted, reason);
        let users = rules.using(&wanted);
        teller.tell(&wanted, ("AddressRefused", reason), users, note, now);
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

    use super::{
        super::{
            name_events::{AGAIN, MAX_TOLD},
            tests::firewall,
        },
        *,
    };

    fn rules(names: &[&str]) -> Rules {
        let mut rules = Rules::default();
        rules.apply(&firewall("team", names));
        rules
    }

    fn attempt(name: &str) -> Rebinding {
        Rebinding {
            name: DnsName::parse(name).unwrap(),
            address: [127, 0, 0, 1].into(),
            reason: "loopback",
        }
    }

    #[test]
    fn rule_authors_get_one_rebinding_event_however_many_wildcard_names() {
        let (reporter, mut reports) = Reporter::with_queue(16);
        let mut teller = NameEvents::new(reporter);
        let rules = rules(&["www.example.com", "*.wild.example.com"]);
        let start = Instant::now();
        for i in 0..1000 {
            let made_up = attempt(&format!("n{i}.wild.example.com"));
            tell(&mut teller, &rules, &made_up, start);
            tell(&mut teller, &rules, &attempt("www.example.com"), start);
            tell(&mut teller, &rules, &attempt("other.example.com"), start);
        }
        let mut told = || std::iter::from_fn(|| reports.try_recv().ok()).collect::<Vec<_>>();
        let first = told();
        let notes: Vec<_> = first.iter().map(|report| report.note.as_str()).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains(" a name under *.wild.example.com. has"));
        assert!(notes[1].contains(" www.example.com. has") && notes[1].contains("loopback"));
        assert_eq!(first[0].about.namespace.as_deref(), Some("team"));
        tell(
            &mut teller,
            &rules,
            &attempt("www.example.com"),
            start + AGAIN / 2,
        );
        assert_eq!(told(), []);
        tell(
            &mut teller,
            &rules,
            &attempt("www.example.com"),
            start + AGAIN,
        );
        assert_eq!(told().len(), 1);
    }

    #[test]
    fn an_address_of_a_node_is_told_of_with_the_flag_that_allows_it() {
        let (reporter, mut reports) = Reporter::with_queue(1);
        let mut teller = NameEvents::new(reporter);
        let refused = Rebinding {
            reason: "node",
            ..attempt("www.example.com")
        };
        tell(
            &mut teller,
            &rules(&["www.example.com"]),
            &refused,
            Instant::now(),
        );
        let note = reports.try_recv().unwrap().note;
        assert!(
            note.contains("(node)") && note.ends_with("--allow-node-addresses"),
            "{note}"
        );
    }

    #[test]
    fn rebinding_events_are_limited_per_kind_and_per_namespace() {
        let (reporter, mut reports) = Reporter::with_queue(4096);
        let mut teller = NameEvents::new(reporter);
        let names: Vec<_> = (0..1000).map(|i| format!("n{i}.example.com")).collect();
        let texts: Vec<_> = names.iter().map(String::as_str).collect();
        let mut rules = rules(&texts);
        rules.apply(&firewall("other", &["n999.example.com"]));
        let start = Instant::now();
        for name in texts.iter().take(999) {
            tell(&mut teller, &rules, &attempt(name), start);
        }
        let mut told = || std::iter::from_fn(|| reports.try_recv().ok()).collect::<Vec<_>>();
        assert_eq!(told().len(), MAX_TOLD);
        let last = attempt("n999.example.com");
        tell(&mut teller, &rules, &last, start);
        let others = told();
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].about.namespace.as_deref(), Some("other"));
        let other = Rebinding {
            reason: "node",
            ..last
        };
        tell(&mut teller, &rules, &other, start);
        assert_eq!(told().len(), 2);
    }

    #[test]
    fn of_many_namespaces_that_have_a_name_each_is_told_in_time() {
        let (reporter, mut reports) = Reporter::with_queue(64);
        let mut teller = NameEvents::new(reporter);
        let mut rules = rules(&["a.example.com"]);
        for i in 0..12 {
            rules.apply(&firewall(&format!("n{i:02}"), &["www.example.com"]));
        }
        let now = Instant::now();
        let mut told = || {
            tell(&mut teller, &rules, &attempt("www.example.com"), now);
            let reports = std::iter::from_fn(|| reports.try_recv().ok());
            reports
                .filter_map(|it| it.about.namespace)
                .collect::<Vec<_>>()
        };
        assert_eq!(told().len(), 8);
        assert_eq!(told(), ["n08", "n09", "n10", "n11"]);
        assert!(told().is_empty());
    }
}

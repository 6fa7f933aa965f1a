//! Why an address is missing, and what is wrong with its names.

use proto::{
    api::DnsName,
    facts::{Asked, ExplainedName, Guard, NameFacts, RuleFaultKind, Subject, SubjectFacts},
    timestamp::Timestamp,
};
use serde::Serialize;

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Reason {
    /// The reason for programs.
    pub(super) code: String,
    /// The name, if it differs from the subject.
    pub(super) name: Option<String>,
    /// The explanation.
    pub(super) sentence: String,
    /// The time of the event.
    pub(super) at: Option<Timestamp>,
}

impl Reason {
    fn new(code: &str, sentence: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            name: None,
            sentence: sentence.into(),
            at: None,
        }
    }
}

/// All reasons: first why the address is missing, then what is wrong with the names.
pub(super) fn reasons(asked: &Asked, facts: &SubjectFacts, is_there: bool) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !is_there {
        match &asked.subject {
            Ok(Subject::Name(name)) => of_name(name, asked, facts, &mut reasons),
            Ok(Subject::Address(_)) => of_address(asked, facts, &mut reasons),
            Err((_, why)) => {
                let words = format!("no rule can have this name: {why}");
                reasons.push(Reason::new("InvalidName", words));
            }
        }
        reasons.extend(facts.rule_faults.iter().map(|fault| {
            let object = fault.object.as_deref().unwrap_or_default();
            let (kind, why) = (&fault.kind, fault.reason.as_deref().unwrap_or_default());
            match fault.fault {
                RuleFaultKind::NameRefused => {
                    let words = format!("a rule of {object} has it, but has no effect: {why}");
                    Reason::new("NameRefused", words)
                }
                RuleFaultKind::RulesOutOfSync => {
                    let words = format!(
                        "the collector cannot read objects of kind {kind}, so it does not know newer rules: {why}"
                    );
                    Reason::new("RulesOutOfSync", words)
                }
                RuleFaultKind::NoDestination => {
                    let words = format!(
                        "a rule of the {kind} {object} has no effect: `to` has none of dnsName, cidrSelector and nodeSelector"
                    );
                    Reason::new("NoDestination", words)
                }
                RuleFaultKind::RulesUnreadable => {
                    let words = format!(
                        "the {kind} {object} has a fault, so some of its rules are unknown: {why}"
                    );
                    Reason::new("RulesUnreadable", words)
                }
                RuleFaultKind::RulesLeftOut => {
                    let words = format!(
                        "the {kind} {object} is left out, since those of its namespace have too many names together: its names have no effect"
                    );
                    Reason::new("RulesLeftOut", words)
                }
            }
        }));
    }
    for name in &facts.names {
        of_trouble(&name.facts, &mut reasons);
        reasons.extend(of_caps(&name.facts));
    }
    reasons
}

fn of_name(name: &DnsName, asked: &Asked, facts: &SubjectFacts, reasons: &mut Vec<Reason>) {
    let used = facts
        .names
        .iter()
        .filter(|it| !it.references.rules.is_empty());
    let used: Vec<&ExplainedName> = used.collect();
    if used.is_empty() {
        not_wanted(name, asked, facts, reasons);
        return;
    }
    reasons.push(Reason::new(
        "NoAddress",
        "the collector knows no address of it",
    ));
    let regular = used.iter().filter(|it| !it.facts.name.is_wildcard());
    let mut known = regular.filter_map(|it| Some((it.facts.no_address.as_ref()?, &it.facts)));
    // Caps have a reason of their own.
    if let Some((why, name)) = known.find(|(why, _)| why.code != "LimitExceeded") {
        let sentence = match name.fruitless_lookups {
            0 | 1 => why.sentence.clone(),
            count => format!("{} ({count} look-ups in a row)", why.sentence),
        };
        reasons.push(Reason::new(&why.code, sentence));
    } else if used
        .iter()
        .all(|it| it.facts.name.is_wildcard() && !it.facts.over_limit)
    {
        let sentence = "only a wildcard matches it, so the collector does not look it up before a pod queries it";
        reasons.push(Reason::new("OnlyWildcard", sentence));
    }
}

fn not_wanted(name: &DnsName, asked: &Asked, facts: &SubjectFacts, reasons: &mut Vec<Reason>) {
    let elsewhere: usize = facts.names.iter().map(|it| it.references.elsewhere).sum();
    let words = match &asked.namespace {
        None => "no rule has it".to_owned(),
        Some(namespace) if elsewhere == 0 => format!("no rule of namespace {namespace} has it"),
        Some(namespace) => format!(
            "no rule of namespace {namespace} has it; EgressFirewalls of other namespaces that do: {elsewhere}"
        ),
    };
    reasons.push(Reason::new("NoRule", words));
    for wildcard in &facts.near_misses {
        let is_apex = wildcard.as_str().strip_prefix("*.") == Some(name.as_str());
        let words = if is_apex {
            format!(
                "a rule has {wildcard}, which matches names with one more label, but not {name} itself"
            )
        } else {
            format!(
                "a rule has {wildcard}, which matches names with exactly one label in the place of `*`, and this has more"
            )
        };
        reasons.push(Reason {
            name: Some(wildcard.to_string()),
            ..Reason::new("WildcardDepth", words)
        });
    }
    if let Some(object) = facts.names.iter().flat_map(|it| &it.facts.objects).next() {
        let words = format!("the object {object} is for it, though no rule that counts has it");
        reasons.push(Reason::new("ObjectWithoutRule", words));
    }
    for unwanted in &facts.unwanted {
        let addresses = unwanted.addresses.iter().take(8);
        let addresses: Vec<_> = addresses.map(ToString::to_string).collect();
        let words = format!(
            "a rule for it would begin with the addresses that a pod got: {} has {}",
            unwanted.name,
            addresses.join(", ")
        );
        reasons.push(Reason {
            at: Some(unwanted.at),
            ..Reason::new("SeenUnwanted", words)
        });
    }
}

fn of_address(asked: &Asked, facts: &SubjectFacts, reasons: &mut Vec<Reason>) {
    reasons.push(match (&facts.guard, &asked.namespace) {
        (Some(Guard { name, advice }), _) => {
            let advice = advice.as_ref().map(|advice| format!(" ({advice})"));
            let advice = advice.unwrap_or_default();
            let words = format!(
                "no rule can open it, whatever the name: the guard `{name}` refuses it{advice}"
            );
            Reason::new("Guarded", words)
        }
        (None, _) if facts.names.is_empty() => Reason::new("NoAddress", "no name in a rule has it"),
        (None, None) => Reason::new("NoRule", "no rule has a name with this address"),
        (None, Some(namespace)) => {
            let words = format!("no rule of namespace {namespace} has a name with this address");
            Reason::new("NoRule", words)
        }
    });
}

fn of_trouble(name: &NameFacts, reasons: &mut Vec<Reason>) {
    if name.left_out > 0 {
        let (code, effect) = match name.denied {
            true => ("Full", "traffic to them is not blocked"),
            false => ("Evicted", "they are closed"),
        };
        let (name, count) = (&name.name, name.left_out);
        let words = format!("{name}: {count} addresses were left out at a cap: {effect}");
        reasons.push(Reason::new(code, words));
    }
    if name.failed_writes > 0 {
        let words = format!(
            "the store refused the status of {}, {} times in a row: see the log for the reason",
            name.name, name.failed_writes
        );
        reasons.push(Reason::new("NotWritten", words));
    }
    for failing in &name.failures {
        let words = format!(
            "look-ups of {} failed {} times in a row ({})",
            failing.name,
            failing.failures,
            failing.reason.as_deref().unwrap_or("before this run")
        );
        reasons.push(Reason::new("Degraded", words));
    }
}

/// Names and addresses left out because of caps.
fn of_caps(name: &NameFacts) -> Option<Reason> {
    let what = if name.over_limit {
        "it is left out: its namespaces have more names or wildcards in rules than they may"
    } else if name.at_cap.is_empty() {
        return None;
    } else {
        "new addresses may be left out: namespaces with a rule for it are at a cap"
    };
    let mut words = format!("{}: {what}", name.name);
    for at_cap in &name.at_cap {
        words += &format!(
            "; {} has {} addresses of names in rules, and {} names are left out",
            at_cap.namespace, at_cap.addresses, at_cap.names_left_out
        );
    }
    Some(Reason::new("LimitExceeded", words))
}

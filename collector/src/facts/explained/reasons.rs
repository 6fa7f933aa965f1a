//! Why an address is missing, and what is wrong with its names.

use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    inspect::{Asked, Subject},
};
use serde::Serialize;

use crate::facts::explained::{KnownFacts, near_misses};
use crate::{
    publish::guards::advice,
    publish::{CapView, NameFacts},
};

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The reason for programs.
    pub reason: &'static str,
    /// The name, if it differs from the subject.
    pub name: Option<String>,
    /// The address, if the reason is about one.
    pub address: Option<String>,
    /// The explanation.
    pub words: String,
    /// The time of the event.
    pub at: Option<Timestamp>,
}

impl Reason {
    fn new(reason: &'static str, words: impl Into<String>) -> Self {
        Self {
            reason,
            name: None,
            address: None,
            words: words.into(),
            at: None,
        }
    }
}

/// All reasons: first why the address is missing, then what is wrong with the names.
pub(super) fn reasons(asked: &Asked, known: &KnownFacts, is_there: bool) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !is_there {
        match &asked.subject {
            Ok(Subject::Name(name)) => of_name(name, asked, known, &mut reasons),
            Ok(Subject::Address(_)) => of_address(asked, known, &mut reasons),
            Err((_, why)) => of_text(why, known, &mut reasons),
        }
        of_rules(known, &mut reasons);
    }
    let facts = known.facts.as_ref();
    for name in facts.map_or(&[][..], |facts| &facts.names) {
        of_trouble(name, &mut reasons);
        of_caps(name, asked, &mut reasons);
    }
    reasons
}

fn of_text(why: &str, known: &KnownFacts, reasons: &mut Vec<Reason>) {
    let words = format!("no rule can have this name: {why}");
    reasons.push(Reason::new("InvalidName", words));
    for (firewall, why) in &known.refused_rules {
        let words = format!("a rule of {firewall} has it, but has no effect: {why}");
        reasons.push(Reason::new("NameRefused", words));
    }
}

fn of_name(name: &DnsName, asked: &Asked, known: &KnownFacts, reasons: &mut Vec<Reason>) {
    let specs = [Some(name.clone()), name.wildcard()];
    let specs = || specs.iter().flatten();
    let uses = |spec: &DnsName| known.uses.get(spec);
    let used = specs().filter(|it| uses(it).is_some_and(|uses| !uses.rules.is_empty()));
    let used: Vec<_> = used.collect();
    if used.is_empty() {
        not_wanted(name, asked, known, reasons);
        return;
    }
    reasons.push(Reason::new("NoAddress", "the collector knows no address of it; if a guard refused an answer, an Event at the object with the rule says so"));
    let Some(facts) = &known.facts else {
        return;
    };
    let fruitless = facts.names.iter().map(|it| it.fruitless_lookups).max();
    match fruitless.unwrap_or(0) {
        _ if !facts.lookups => {
            let words =
                "the collector does not look it up (--resolver none): a pod has to query it first";
            reasons.push(Reason::new("NoLookups", words));
        }
        _ if used.iter().all(|spec| spec.is_wildcard()) => {
            let words = "only a wildcard matches it, so the collector does not look it up before a pod queries it";
            reasons.push(Reason::new("OnlyWildcard", words));
        }
        1.. if facts.leader => {
            let words = format!(
                "{} look-ups in a row gave no address",
                fruitless.unwrap_or(0)
            );
            reasons.push(Reason::new("FruitlessLookups", words));
        }
        _ if !facts.leader => {
            let words = "this replica does not lead: the leader looks it up";
            reasons.push(Reason::new("NotLeader", words));
        }
        _ => reasons.push(Reason::new("NotLookedUp", "it was not looked up yet")),
    }
}

fn not_wanted(name: &DnsName, asked: &Asked, known: &KnownFacts, reasons: &mut Vec<Reason>) {
    let specs = [Some(name.clone()), name.wildcard()];
    let elsewhere = specs.iter().flatten().filter_map(|it| known.uses.get(it));
    let elsewhere: usize = elsewhere.map(|uses| uses.elsewhere).sum();
    let words = match &asked.namespace {
        None => "no rule has it".to_owned(),
        Some(namespace) if elsewhere == 0 => format!("no rule of namespace {namespace} has it"),
        Some(namespace) => format!(
            "no rule of namespace {namespace} has it; EgressFirewalls of other namespaces that do: {elsewhere}"
        ),
    };
    reasons.push(Reason::new("NoRule", words));
    for wildcard in near_misses(asked) {
        let uses = known.uses.get(&wildcard);
        if uses.is_none_or(|uses| uses.rules.is_empty()) {
            continue;
        }
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
    if let Some(facts) = &known.facts
        && let Some(object) = facts.names.iter().flat_map(|name| &name.objects).next()
    {
        let words = format!("the object {object} is for it, though no rule that counts has it");
        reasons.push(Reason::new("ObjectWithoutRule", words));
    }
    for unwanted in &known.unwanted {
        let addresses = unwanted.addresses.iter().take(8);
        let addresses: Vec<_> = addresses.map(|(ip, _)| ip.to_string()).collect();
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

fn of_address(asked: &Asked, known: &KnownFacts, reasons: &mut Vec<Reason>) {
    let Some(facts) = &known.facts else {
        return;
    };
    if let Some(guard) = facts.guarded {
        let words = format!("no rule can open it, whatever the name: {}", refused(guard));
        reasons.push(Reason::new("Guarded", words));
    } else if !facts.names.is_empty() {
        let words = match &asked.namespace {
            None => "no rule has a name with this address".to_owned(),
            Some(namespace) => {
                format!("no rule of namespace {namespace} has a name with this address")
            }
        };
        reasons.push(Reason::new("NoRule", words));
    } else {
        let words = "no name in a rule has it";
        reasons.push(Reason::new("NoAddress", words));
    }
}

fn refused(guard: &str) -> String {
    let advice = advice(guard).map(|advice| format!(" ({advice})"));
    let advice = advice.unwrap_or_default();
    format!("the guard `{guard}` refuses it{advice}")
}

/// Reasons to distrust the known rules.
fn of_rules(known: &KnownFacts, reasons: &mut Vec<Reason>) {
    for (source, why) in &known.out_of_sync {
        let words = format!(
            "the collector cannot read objects of kind {source}, so it does not know newer rules: {why}"
        );
        reasons.push(Reason::new("RulesOutOfSync", words));
    }
    for (source, object) in &known.unreadable {
        let words = format!(
            "the collector cannot read the {source} {object}, so it does not know its rules"
        );
        reasons.push(Reason::new("RulesUnreadable", words));
    }
    for (source, object) in &known.left_out {
        let words = format!(
            "the {source} {object} is left out, since those of its namespace have too many names together: its names have no effect"
        );
        reasons.push(Reason::new("RulesLeftOut", words));
    }
}

fn of_trouble(name: &NameFacts, reasons: &mut Vec<Reason>) {
    if name.left_out > 0 {
        let words = format!(
            "{} is in a Deny rule, and its object is full: addresses were left out, and traffic to them is not blocked ({} times)",
            name.name, name.left_out
        );
        reasons.push(Reason::new("Full", words));
    }
    if name.failed_writes > 0 {
        let words = format!(
            "the store refused the status of {}, {} times in a row: see the log for the reason",
            name.name, name.failed_writes
        );
        reasons.push(Reason::new("NotWritten", words));
    }
    for failing in &name.failures {
        let failure = failing
            .failure
            .map_or("before this run".to_owned(), |it| it.to_string());
        let words = format!(
            "look-ups of {} failed {} times in a row ({failure})",
            failing.name, failing.failures
        );
        reasons.push(Reason::new("Degraded", words));
    }
}

/// Names and addresses left out because of caps. Namespaces other than the one in the request are not
/// revealed.
fn of_caps(name: &NameFacts, asked: &Asked, reasons: &mut Vec<Reason>) {
    let is_asked = |at_cap: &&CapView| {
        let namespace = asked.namespace.as_deref();
        namespace.is_none_or(|it| it == &*at_cap.namespace)
    };
    let at_cap = name.at_cap.iter().filter(is_asked).map(|at_cap| {
        format!(
            "{} has {} addresses of names in rules, and {} names are left out",
            at_cap.namespace, at_cap.addresses, at_cap.names_left_out
        )
    });
    let at_cap: Vec<_> = at_cap.collect();
    let names::NamespaceCaps {
        names,
        wildcards,
        addresses,
    } = names::NamespaceCaps::default();
    let what = match name.over_limit {
        true => {
            format!(
                "it is left out: its namespaces have more than {names} names or {wildcards} wildcards in rules"
            )
        }
        false if at_cap.is_empty() => return,
        false => format!(
            "new addresses may be left out: namespaces with a rule for it are at a cap ({addresses} addresses of names)"
        ),
    };
    let which = match at_cap.is_empty() {
        true => String::new(),
        false => format!("; {}", at_cap.join(", ")),
    };
    let words = format!("{}: {what}{which}", name.name);
    reasons.push(Reason::new("LimitExceeded", words));
}

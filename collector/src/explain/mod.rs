//! Why an address is there, or is not: from what is known at this moment, in plain words.
//!
//! - [`Known`]: what the tasks told.
//! - [`Explanation`]: what that means, for programs.
//! - `reasons`: why something is not there; `words`: all of it for people.

mod reasons;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    inspect::{Asked, Subject, text::time},
    store::ObjectKey,
};
use serde::Serialize;

pub use self::reasons::Reason;
use crate::{
    ingest::Sources,
    new_names::Refused,
    observation::Observation,
    owner::{Facts, NameFacts},
    policy::{NameUses, RuleUse},
    recent::Note,
    state::{AddressFacts, Goes},
};

/// What is known of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The time, for what has none of its own.
    pub at: Timestamp,
    /// What the owner knows; nothing of what can be no name.
    pub facts: Option<Facts>,
    /// Which rules use the names of the facts, and those that nearly want what was asked for.
    pub uses: BTreeMap<DnsName, NameUses>,
    /// What happened of late.
    pub notes: Vec<Note>,
    /// Answers that are remembered since no rule wants the name.
    pub unwanted: Vec<Observation>,
    /// What was left out of the wildcard, as clients asked for too many new names.
    pub refused: Option<Refused>,
    /// Rules without effect whose name is the text that was asked for, with why.
    pub refused_rules: Vec<(ObjectKey, String)>,
    /// Why the EgressFirewalls cannot be read now.
    pub out_of_sync: Option<String>,
    /// EgressFirewalls that cannot be read and were never known.
    pub unreadable: Vec<ObjectKey>,
}

/// The wildcards that somebody may think would want the name: those with more than one label missing, and the one
/// right under it.
pub fn near_misses(asked: &Asked) -> Vec<DnsName> {
    let Ok(Subject::Name(name)) = &asked.subject else {
        return Vec::new();
    };
    if name.is_wildcard() {
        return Vec::new();
    }
    let suffixes = name.as_str().match_indices('.');
    let above = suffixes
        .skip(1)
        .filter_map(|(dot, _)| name.as_str().get(dot + 1..));
    let suffixes = std::iter::once(name.as_str()).chain(above);
    let wildcards = suffixes.map(|suffix| DnsName::parse(&format!("*.{suffix}")));
    wildcards.filter_map(Result::ok).collect()
}

/// What there is to say.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The name, with its trailing dot, or the address; or what was asked for, if it is neither.
    pub about: String,
    /// Only the rules of this namespace count.
    pub namespace: Option<String>,
    /// When this was so, as RFC 3339 has it.
    pub at: String,
    /// Whether the replica that tells this looks names up, and removes addresses.
    pub leader: bool,
    /// Whether there is an address, for a name that a rule uses.
    pub is_there: bool,
    /// The names in use that concern it, at most 1,000.
    pub names: Vec<NameExplained>,
    /// How many more there are.
    pub more_names: usize,
    /// Why it is not there, and what happened of late.
    pub reasons: Vec<Reason>,
    /// All of it in lines for people.
    pub text: Vec<String>,
}

/// A name in use.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameExplained {
    /// The name, as rules and objects have it.
    pub name: String,
    /// The rules that use it, at most 100.
    pub rules: Vec<RuleExplained>,
    /// How many more there are.
    pub more_rules: usize,
    /// How many rules of other namespaces use it, if only one counts.
    pub rules_elsewhere: usize,
    /// Its objects, `NAMESPACE/NAME`: one, if all is well.
    pub objects: Vec<String>,
    /// The addresses, at most 1,000.
    pub addresses: Vec<AddressExplained>,
    /// How many more there are.
    pub more_addresses: usize,
    /// When it is looked up next.
    pub next_lookup: Option<String>,
    /// Writes of its object that failed since the last that worked.
    pub failed_writes: u32,
}

/// An EgressFirewall with the name in its rules.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleExplained {
    /// `NAMESPACE/NAME`.
    pub egress_firewall: String,
    /// In an Allow rule.
    pub allowed: bool,
    /// In a Deny rule.
    pub denied: bool,
}

/// An address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    /// The name that was answered with it.
    pub name: String,
    /// The address.
    pub address: String,
    /// When it was last in an answer.
    pub seen: String,
    /// Where that was.
    pub seen_where: String,
    /// The TTL that gave the latest expiry, within the limits.
    pub ttl_seconds: u32,
    /// When it was looked up with that TTL.
    pub looked_up: String,
    /// When the TTL is over.
    pub expires: String,
    /// When it goes if it is in no answer until then, or before when it does not go.
    pub goes: String,
    /// It goes only once its name was looked up again.
    pub goes_once_looked_up: bool,
    /// The client that first asked for the name, as far as this process knows.
    pub first_client: Option<String>,
    /// Whether it stands in the status of an object.
    pub in_object: bool,
}

impl Explanation {
    /// What it means.
    pub fn new(asked: &Asked, known: &Known, sources: &Sources) -> Self {
        let facts = known.facts.as_ref();
        let names = facts.map_or(&[][..], |facts| &facts.names);
        let is_there = names.iter().any(|name| {
            let uses = known.uses.get(&name.name);
            !name.addresses.is_empty() && uses.is_some_and(|uses| !uses.rules.is_empty())
        });
        let at = facts.map_or(known.at, |facts| facts.at);
        let mut explanation = Self {
            about: asked.text(),
            namespace: asked.namespace.clone(),
            at: time(at),
            leader: facts.is_some_and(|facts| facts.leader),
            is_there,
            names: names
                .iter()
                .map(|name| NameExplained::new(name, known, sources))
                .collect(),
            more_names: facts.map_or(0, |facts| facts.more_names),
            reasons: reasons::reasons(asked, known, sources, is_there),
            text: Vec::new(),
        };
        explanation.text = words::lines(&explanation, asked, known, sources, at);
        explanation
    }
}

impl NameExplained {
    fn new(facts: &NameFacts, known: &Known, sources: &Sources) -> Self {
        let none = NameUses::default();
        let uses = known.uses.get(&facts.name).unwrap_or(&none);
        let address = |(address, in_object): &(AddressFacts, bool)| {
            AddressExplained::new(address, *in_object, sources)
        };
        Self {
            name: facts.name.to_string(),
            rules: uses.rules.iter().map(RuleExplained::new).collect(),
            more_rules: uses.more,
            rules_elsewhere: uses.elsewhere,
            objects: facts.objects.iter().map(ToString::to_string).collect(),
            addresses: facts.addresses.iter().map(address).collect(),
            more_addresses: facts.more_addresses,
            next_lookup: facts.next_lookup.map(time),
            failed_writes: facts.failed_writes,
        }
    }
}

impl RuleExplained {
    fn new(rule: &RuleUse) -> Self {
        Self {
            egress_firewall: rule.egress_firewall.to_string(),
            allowed: rule.allowed,
            denied: rule.denied,
        }
    }
}

impl AddressExplained {
    fn new(facts: &AddressFacts, in_object: bool, sources: &Sources) -> Self {
        let (goes, goes_once_looked_up) = match facts.goes {
            Goes::At(at) => (at, false),
            Goes::OnceLookedUp(at) => (at, true),
        };
        Self {
            name: facts.name.to_string(),
            address: facts.ip.to_string(),
            seen: time(facts.seen),
            seen_where: sources.describe(facts.source),
            ttl_seconds: facts.ttl,
            looked_up: time(facts.looked_up),
            expires: time(facts.expires),
            goes: time(goes),
            goes_once_looked_up,
            first_client: facts.first_client.map(|client| client.to_string()),
            in_object,
        }
    }
}

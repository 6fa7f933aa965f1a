//! Why an address is there, or is not: from what is known at this moment, in plain words.
//!
//! - [`KnownFacts`]: what the tasks told.
//! - [`Explanation`]: what that means, for programs.
//! - `reasons`: why something is not there; `render_text`: all of it as text.

mod reasons;
mod render_text;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    inspect::{Asked, Subject},
    store::ObjectKey,
};
use serde::Serialize;

pub use self::reasons::Reason;
use crate::{
    event_history::HistoryEntry,
    new_names::Refused,
    objects::{Facts, NameFacts},
    observation::Observation,
    observe::PeerIds,
    rules::NameUses,
    state::AddressFacts,
};

/// What is known of it.
#[derive(Clone, Debug)]
pub struct KnownFacts {
    /// The time, for what has none of its own.
    pub at: Timestamp,
    /// What the controller knows; nothing of what can be no name.
    pub facts: Option<Facts>,
    /// Which rules use the names of the facts, and those that nearly want what was asked for.
    pub uses: BTreeMap<DnsName, NameUses>,
    /// What happened of late.
    pub notes: Vec<HistoryEntry>,
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
    /// When this was so.
    pub at: Timestamp,
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
    /// What the controller knows.
    #[serde(flatten)]
    pub facts: NameFacts,
    /// Which rules use it.
    #[serde(flatten)]
    pub uses: NameUses,
    /// Its addresses, in the order of the facts.
    pub addresses: Vec<AddressExplained>,
}

/// An address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    /// What is known of it.
    #[serde(flatten)]
    pub facts: AddressFacts,
    /// Where it was last in an answer.
    pub seen_where: String,
    /// Whether it stands in the status of an object.
    pub in_object: bool,
}

impl Explanation {
    /// What it means.
    pub fn new(asked: &Asked, known: &KnownFacts, sources: &PeerIds) -> Self {
        let facts = known.facts.as_ref();
        let names = facts.map_or(&[][..], |facts| &facts.names);
        let is_there = names.iter().any(|name| {
            let uses = known.uses.get(&name.name);
            !name.addresses.is_empty() && uses.is_some_and(|uses| !uses.rules.is_empty())
        });
        let mut explanation = Self {
            about: asked.text(),
            namespace: asked.namespace.clone(),
            at: facts.map_or(known.at, |facts| facts.at),
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
        explanation.text = render_text::lines(&explanation, asked);
        explanation
    }
}

impl NameExplained {
    fn new(facts: &NameFacts, known: &KnownFacts, sources: &PeerIds) -> Self {
        let addresses = facts.addresses.iter();
        let addresses = addresses.map(|(facts, in_object)| AddressExplained {
            facts: facts.clone(),
            seen_where: sources.describe(facts.source),
            in_object: *in_object,
        });
        Self {
            facts: facts.clone(),
            uses: known.uses.get(&facts.name).cloned().unwrap_or_default(),
            addresses: addresses.collect(),
        }
    }
}

//! Explains in words why an address is there, or is not, from the current state.
//!
//! - [`KnownFacts`]: the state of the tasks.
//! - [`Explanation`]: the result, for programs.
//! - `reasons`: why an address is missing. `render_text`: all of it as text.

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
    listen::PeerIds,
    publish::{Facts, NameFacts},
    rules::{NameUses, Source},
};
use names::{AddressFacts, Observation};

/// The state of the tasks concerning one subject.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts {
    /// The time of facts without their own.
    pub at: Timestamp,
    /// The facts of the controller; `None` for a text that cannot be a name.
    pub facts: Option<Facts>,
    /// The rules that use the names of the facts, and those that nearly match the subject.
    pub uses: BTreeMap<DnsName, NameUses>,
    /// Cached answers, if no rule wants the name.
    pub unwanted: Vec<Observation>,
    /// Rules without effect that have the given text as a name, with the reason.
    pub refused_rules: Vec<(ObjectKey, String)>,
    /// Why the objects with rules of a source cannot be read now.
    pub out_of_sync: Vec<(Source, String)>,
    /// Objects with rules that cannot be decoded and never could.
    pub unreadable: Vec<(Source, ObjectKey)>,
    /// Objects with rules that are left out, since their namespaces have too many names.
    pub left_out: Vec<(Source, ObjectKey)>,
}

/// Wildcards that seem to match the name but do not: those with more than one label missing, and
/// the one directly below it.
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

/// The explanation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The name with its trailing dot, or the address, or the given text if it is neither.
    pub about: String,
    /// Only the rules of this namespace count.
    pub namespace: Option<String>,
    /// The time of the facts.
    pub at: Timestamp,
    /// Whether the answering replica leads: it looks names up, and removes addresses.
    pub leader: bool,
    /// Whether a rule uses the name, and an address is known.
    pub is_there: bool,
    /// The names in use that concern the subject, at most 1,000.
    pub names: Vec<NameExplained>,
    /// The number of names beyond that.
    pub more_names: usize,
    /// Why the address is missing, and what is wrong with the names.
    pub reasons: Vec<Reason>,
    /// All of it as lines of text.
    pub text: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameExplained {
    #[serde(flatten)]
    pub facts: NameFacts,
    /// The rules that use it.
    #[serde(flatten)]
    pub uses: NameUses,
    /// Its addresses, in the order of the facts.
    pub addresses: Vec<AddressExplained>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    #[serde(flatten)]
    pub facts: AddressFacts,
    /// Where the last answer with it came from.
    pub seen_where: String,
    /// Whether the status of an object has it.
    pub in_object: bool,
}

impl Explanation {
    /// Derives the explanation from the facts.
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
            reasons: reasons::reasons(asked, known, is_there),
            text: Vec::new(),
        };
        explanation.text = render_text::lines(&explanation, asked);
        explanation
    }
}

impl NameExplained {
    fn new(facts: &NameFacts, known: &KnownFacts, sources: &PeerIds) -> Self {
        let addresses = facts.addresses.iter();
        let addresses =
            addresses.map(|(facts, in_object)| AddressExplained::new(facts, *in_object, sources));
        Self {
            facts: facts.clone(),
            uses: known.uses.get(&facts.name).cloned().unwrap_or_default(),
            addresses: addresses.collect(),
        }
    }
}

impl AddressExplained {
    pub(crate) fn new(facts: &AddressFacts, in_object: bool, sources: &PeerIds) -> Self {
        Self {
            facts: facts.clone(),
            seen_where: sources.describe(facts.source),
            in_object,
        }
    }
}

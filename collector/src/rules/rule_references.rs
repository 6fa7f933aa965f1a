//! Which rules use a name, for `explain`.

use proto::{
    api::DnsName,
    facts::{NameReferences, RuleReference},
};
use runtime::store::ObjectKey;
use tokio::sync::oneshot;

use super::rule_set::Rules;

/// The most objects listed for each name; the others are counted.
const MOST: usize = 100;

/// A request for the rules that use exactly these names; the answer has the same order.
#[derive(Debug)]
pub struct ReferencesRequest {
    /// The names, as rules have them.
    pub names: Vec<DnsName>,
    /// Only the rules of this namespace.
    pub namespace: Option<String>,
    pub answer: oneshot::Sender<Vec<NameReferences>>,
}

/// The objects with rules for exactly the names that are asked about.
pub(super) fn references(rules: &Rules, asked: &ReferencesRequest) -> Vec<NameReferences> {
    let namespace = asked.namespace.as_deref();
    let is_asked = |key: &ObjectKey| {
        // An object in no namespace may be for each of them.
        key.namespace.is_empty() || namespace.is_none_or(|asked| key.namespace == asked)
    };
    let of_name = |name: &DnsName| {
        let mut references = NameReferences::default();
        for user in rules.users(name) {
            let key = &user.key;
            if !is_asked(key) {
                references.elsewhere += 1;
            } else if references.rules.len() >= MOST {
                references.more += 1;
            } else {
                let uses = user.uses(name).unwrap_or_default();
                let source = user.source;
                references.rules.push(RuleReference {
                    kind: source.to_string(),
                    object: key.to_string(),
                    allowed: uses.allowed,
                    denied: uses.denied,
                    rule: source
                        .field()
                        .map(|field| format!("{field}[{}]", uses.index)),
                    more_rules: uses.rules.saturating_sub(1),
                    is_for_ports: uses.are_for_ports,
                });
            }
        }
        references
    };
    asked.names.iter().map(of_name).collect()
}

//! Which rules use a name, for `explain`.

use proto::api::DnsName;
use runtime::store::ObjectKey;
use serde::Serialize;
use tokio::sync::oneshot;

use super::{Source, rule_set::Rules};

/// The most objects listed for each name; the others are counted.
const MOST: usize = 100;

/// A request for the rules that use exactly these names; the answer has the same order.
#[derive(Debug)]
pub struct UsesAsked {
    /// The names, as rules have them.
    pub names: Vec<DnsName>,
    /// Only the rules of this namespace.
    pub namespace: Option<String>,
    pub answer: oneshot::Sender<Vec<NameUses>>,
}

/// The rules that use a name.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct NameUses {
    /// At most 100 of them.
    pub rules: Vec<RuleUse>,
    /// The number of further ones.
    #[serde(rename = "moreRules")]
    pub more: usize,
    /// The number of those in other namespaces, which are not listed.
    #[serde(rename = "rulesElsewhere")]
    pub elsewhere: usize,
}

impl NameUses {
    /// Adds the rules of another source.
    pub(crate) fn add(&mut self, more: Self) {
        self.rules.extend(more.rules);
        self.more += more.more;
        self.elsewhere += more.elsewhere;
    }
}

/// An object that uses a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleUse {
    pub kind: Source,
    pub object: ObjectKey,
    /// An Allow rule has the name.
    pub allowed: bool,
    /// A Deny rule has the name.
    pub denied: bool,
    /// The index of the first rule with the name, in `spec.egress` of an EgressFirewall.
    pub index: u16,
    /// The number of its further rules with the name.
    pub more_rules: u16,
    /// Each of these rules is for some ports only.
    pub is_for_ports: bool,
}

/// The objects with rules for exactly the names that are asked about.
pub(super) fn uses(rules: &Rules, asked: &UsesAsked) -> Vec<NameUses> {
    let namespace = asked.namespace.as_deref();
    let is_asked = |key: &ObjectKey| {
        // An object in no namespace may be for each of them.
        key.namespace.is_empty() || namespace.is_none_or(|asked| key.namespace == asked)
    };
    let uses = |name: &DnsName| {
        let mut uses = NameUses::default();
        for user in rules.users(name) {
            let key = &user.rule_object.key;
            match (is_asked(key), uses.rules.len() < MOST) {
                (false, _) => uses.elsewhere += 1,
                (true, true) => {
                    let of = user.rule_object.uses(name).unwrap_or_default();
                    uses.rules.push(RuleUse {
                        kind: user.rule_object.source,
                        object: key.clone(),
                        allowed: user.terms.allowed,
                        denied: user.terms.denied,
                        index: of.index,
                        more_rules: of.rules.saturating_sub(1),
                        is_for_ports: of.are_for_ports,
                    });
                }
                (true, false) => uses.more += 1,
            }
        }
        uses
    };
    asked.names.iter().map(uses).collect()
}

//! The facts of a collector about names and addresses: its answers to `/names.json` and `/explain.json`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{api::DnsName, timestamp::Timestamp};

/// Some of the names in use and of objects, sorted: the answer to `/names.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameList {
    /// The time of the facts.
    pub at: Timestamp,
    /// Whether this replica looks names up, and removes addresses.
    pub leader: bool,
    /// At most 500.
    pub names: Vec<ListedName>,
    /// The last listed name, if more follow.
    pub next: Option<DnsName>,
}

/// A name with its addresses.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedName {
    /// Its state.
    #[serde(flatten)]
    pub facts: NameFacts,
    /// The namespaces with a rule for it, at most 100.
    pub namespaces: Vec<String>,
    /// The number of other namespaces.
    pub more_namespaces: usize,
    /// The clients that asked for the listed addresses, as far as known; at most 100.
    pub asked_by: Vec<IpAddr>,
}

/// What a collector knows of a name or an address: the answer to `/explain.json?about=`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectFacts {
    /// The time of the facts.
    pub at: Timestamp,
    /// Whether this replica looks names up, and removes addresses.
    pub leader: bool,
    /// Whether names are looked up at all.
    pub lookups: bool,
    /// The guard that refuses the address.
    pub guard: Option<Guard>,
    /// The name itself and its wildcard, or all names with the address; at most 1,000.
    pub names: Vec<ExplainedName>,
    /// The number of names beyond that.
    pub more_names: usize,
    /// Wildcards in rules that seem to match the name, but do not.
    pub near_misses: Vec<DnsName>,
    /// Cached answers, if no rule wants the name; at most ten.
    pub unwanted: Vec<AnswerFacts>,
    /// Rules that are not applied: those with the name itself, and those of objects that cannot be read.
    pub rule_faults: Vec<RuleFault>,
}

/// A guard that refuses addresses.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Guard {
    /// Its name, as in metrics.
    pub name: String,
    /// How an administrator can allow the addresses.
    pub advice: Option<String>,
}

/// A name, and the rules that use it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExplainedName {
    /// Its state.
    #[serde(flatten)]
    pub facts: NameFacts,
    /// Its rules.
    #[serde(flatten)]
    pub references: NameReferences,
}

/// Without rules.
impl From<NameFacts> for ExplainedName {
    fn from(facts: NameFacts) -> Self {
        Self {
            facts,
            references: NameReferences::default(),
        }
    }
}

/// A name in use or of an object.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameFacts {
    /// The name, as a rule or an object has it.
    pub name: DnsName,
    /// Whether a rule uses it.
    pub wanted: bool,
    /// An Allow rule uses it.
    pub allowed: bool,
    /// A Deny rule uses it.
    pub denied: bool,
    /// It is left out because its namespaces have too many names.
    pub over_limit: bool,
    /// The namespaces with a rule for it that are at a cap, at most eight.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at_cap: Vec<CapFacts>,
    /// Its objects, as `NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// The addresses in question, at most 1,000.
    pub addresses: Vec<AddressFacts>,
    /// The number of addresses beyond that.
    pub more_addresses: usize,
    /// The next look-up of the subject, or of the first name under it.
    pub next_lookup: Option<Timestamp>,
    /// Look-ups of the name in a row that found no address.
    pub fruitless_lookups: u32,
    /// The names in question whose look-ups fail, at most ten.
    pub failures: Vec<FailingName>,
    /// It is in a Deny rule, and so many addresses did not fit its object: traffic to them is not blocked.
    pub left_out: u64,
    /// Failed writes of its object since the last success.
    pub failed_writes: u32,
}

/// An address of a name.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressFacts {
    /// The name that has it. Under a wildcard it differs from the rule.
    pub name: DnsName,
    /// The address.
    pub address: IpAddr,
    /// The TTL in seconds that gave the latest expiry, within the limits.
    pub ttl_seconds: u32,
    /// The time of the last answer with the address.
    pub seen: Timestamp,
    /// Where that answer came from, as a phrase that follows the word `seen`.
    pub seen_where: String,
    /// The client that first queried the name, as far as this process knows.
    pub first_client: Option<IpAddr>,
    /// When its TTL ends.
    pub expires: Timestamp,
    /// When it is removed if no answer renews it; at the earliest, if `removed_after_lookup`.
    pub removed_at: Timestamp,
    /// It is removed only after a look-up of its name.
    pub removed_after_lookup: bool,
    /// Whether the status of an object has it.
    pub in_object: bool,
}

/// A name whose look-ups fail.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FailingName {
    /// The name.
    pub name: DnsName,
    /// Failed look-ups since the last answer.
    pub failures: i32,
    /// The reason of the last failure, such as `NXDOMAIN`, `SERVFAIL` and `Timeout`; unknown if it was before this process started.
    pub reason: Option<String>,
}

/// A namespace at a cap, and what it has.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapFacts {
    /// The namespace, or the policy.
    pub namespace: String,
    /// The names in its rules that are left out.
    pub names_left_out: usize,
    /// The addresses of the regular names in its rules.
    pub addresses: usize,
}

/// The rules that use a name.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct NameReferences {
    /// At most 100 of them.
    pub rules: Vec<RuleReference>,
    /// The number of further ones.
    #[serde(rename = "moreRules")]
    pub more: usize,
    /// The number of those in other namespaces, which are not listed.
    #[serde(rename = "rulesElsewhere")]
    pub elsewhere: usize,
}

impl NameReferences {
    /// Adds the rules of another kind of objects.
    pub fn extend(&mut self, more: Self) {
        self.rules.extend(more.rules);
        self.more += more.more;
        self.elsewhere += more.elsewhere;
    }
}

/// An object that uses a name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReference {
    /// Its kind.
    pub kind: String,
    /// `NAMESPACE/NAME`.
    pub object: String,
    /// An Allow rule has the name.
    pub allowed: bool,
    /// A Deny rule has the name.
    pub denied: bool,
    /// The first rule with the name, such as `egress[3]`; `None` if the object is one rule.
    pub rule: Option<String>,
    /// The number of its further rules with the name.
    pub more_rules: u16,
    /// Each of these rules is for some ports only.
    pub is_for_ports: bool,
}

/// An answer for a name without a rule.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AnswerFacts {
    /// The name of the question.
    pub name: DnsName,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// When the collector read the answer.
    pub at: Timestamp,
}

/// Rules that are not applied, or not known.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RuleFault {
    /// What is wrong.
    pub fault: RuleFaultKind,
    /// The kind of the object.
    pub kind: String,
    /// The object, as `NAMESPACE/NAME`; `None` if it concerns all of the kind.
    pub object: Option<String>,
    /// The reason in words, if there is more to say.
    pub reason: Option<String>,
}

/// Why rules are not applied, or not known.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum RuleFaultKind {
    /// No object can have the name of the rule.
    NameRefused,
    /// The objects of the kind cannot be read now: their last known rules apply.
    RulesOutOfSync,
    /// The object cannot be decoded, and never could.
    RulesUnreadable,
    /// The objects of the namespace have too many names together.
    RulesLeftOut,
}

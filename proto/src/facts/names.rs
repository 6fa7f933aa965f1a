//! The facts of a collector: names, addresses, rules and streams.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HoldFacts, Reason};
use crate::{api::DnsName, timestamp::Timestamp};

/// What a collector knows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectorFacts {
    /// Whether names are looked up at all.
    pub lookups: bool,
    /// The names that wait for a look-up or are being looked up, with those found under wildcards.
    pub scheduled_lookups: usize,
    /// The names in rules and of objects.
    pub name_count: usize,
    /// The objects with rules, by kind.
    pub sources: Vec<SourceFacts>,
    /// The server blocks of DNS servers, and whether they stream; none without probes (`--flush-probe 0`).
    pub streams: Vec<StreamFacts>,
    /// The connected peers.
    pub peers: Vec<PeerFacts>,
    /// The forwarder of `--hold-listen`, if there is one.
    #[serde(default)]
    pub hold: Option<HoldFacts>,
    /// The namespaces at a cap, at most 1,000.
    pub namespaces_at_cap: Vec<CapFacts>,
    /// Names of objects that no rule has, at most 1,000. Such an object goes ten minutes after the last rule for it.
    pub names_without_rule: Vec<DnsName>,
    /// The ten names without a rule that clients asked for most, with the first page. Names of the cluster are left out.
    #[serde(default)]
    pub not_allowed_by_name: Vec<UnallowedName>,
    /// A page of the names, sorted.
    pub names: Vec<ListedName>,
    /// The last name of the page, if more follow.
    pub next: Option<DnsName>,
    /// The latest new addresses, the oldest first.
    pub new_addresses: Vec<NameAddress>,
}

/// The objects with rules of one kind.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFacts {
    /// The kind.
    pub kind: String,
    /// Their number, without those that were never decoded.
    pub objects: usize,
    /// Those that cannot be decoded and never could, as `NAMESPACE/NAME`.
    pub unknown: Vec<String>,
    /// Why they cannot be read now.
    pub out_of_sync: Option<String>,
}

/// A name without a rule that clients asked for.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnallowedName {
    /// The name.
    pub name: String,
    /// In how many seconds it was answered, or more if its answers differ. The count begins anew after 65,536 other answers.
    pub seconds_asked: u32,
    /// The last client. It need not be in a namespace with rules: the collector knows no pods.
    pub last_client: Option<IpAddr>,
}

/// A server block of a DNS server, and its stream to the collector.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamFacts {
    /// The DNS server.
    #[schemars(with = "String")]
    pub server: SocketAddr,
    /// The name by which its block is probed.
    pub name: String,
    /// Whether probes come back.
    pub state: StreamState,
    /// How long ago a probe last came back.
    pub reported_seconds: Option<f64>,
    /// The time from that probe to the flush.
    pub delay_seconds: Option<f64>,
    /// The response code of the last answer to a probe.
    pub rcode: Option<u8>,
}

/// Whether the flush probes of a server block come back in a dnstap stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// No probe has come back yet.
    #[default]
    Trying,
    /// Probes come back.
    Streaming,
    /// No probe came back for 30 s.
    NotStreaming,
    /// It forwards probes, and gets no more.
    Forwards,
}

impl StreamState {
    /// Every value of [`StreamState::as_str`].
    pub const WORDS: &[&str] = &["trying", "streaming", "not_streaming", "forwards"];

    /// Its value in metric labels and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Streaming => "streaming",
            Self::NotStreaming => "not_streaming",
            Self::Forwards => "forwards",
        }
    }
}

/// A connected peer.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerFacts {
    /// The address, or the process.
    pub peer: String,
    /// Whether it may stream. Frames of an unknown peer are not read.
    pub is_known: bool,
    /// The number of its connections.
    pub connections: usize,
    /// Data frames read since it connected.
    pub frames: u64,
    /// Its observations that were dropped.
    pub lost: u64,
}

/// A new address of a name of rules.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameAddress {
    /// The name as in rules, which is `spec.name` of the object.
    pub rule: String,
    /// The name of the question. Under a wildcard it differs from the rule.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The time of the answer by the DNS server's clock.
    pub answered_at: Option<Timestamp>,
    /// When the collector read the answer.
    pub read_at: Timestamp,
    /// When the store acknowledged a status with the address.
    pub status_written_at: Option<Timestamp>,
    /// The object of that status, as `NAMESPACE/NAME`.
    pub object: Option<String>,
    /// The DNS server of the answer, or the collector's own look-up.
    pub seen_where: String,
    /// The namespaces with a rule for it, at most 100.
    pub namespaces: Vec<String>,
}

/// A name with its addresses.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
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

/// What a collector knows of a name or an address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectFacts {
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
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Guard {
    /// Its name, as in metrics.
    pub name: String,
    /// How an administrator can allow the addresses.
    pub advice: Option<String>,
}

/// A name, and the rules that use it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
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
    /// Why it has no address: the reason of the last failure, such as `NXDOMAIN`, `NoData`, `SERVFAIL`, `REFUSED`, `Timeout`, `Guarded` and
    /// `LimitExceeded`.
    pub no_address: Option<Reason>,
    /// The names in question whose look-ups fail, at most ten.
    pub failures: Vec<FailingName>,
    /// So many addresses were left out at a cap. In a Deny rule, traffic to them is not blocked.
    pub left_out: u64,
    /// Failed writes of its object since the last success.
    pub failed_writes: u32,
}

/// An address of a name.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
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
    /// The name needs no entry in that status, since the wildcard's own entry has the address.
    #[serde(default)]
    pub is_covered: bool,
}

/// A name whose look-ups fail.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FailingName {
    /// The name.
    pub name: DnsName,
    /// Failed look-ups since the last answer.
    pub failures: i32,
    /// The reason of the last failure, such as `NXDOMAIN`, `SERVFAIL` and `Timeout`; unknown if it was before this process started.
    pub reason: Option<String>,
}

/// A namespace at a cap, and what it has.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AnswerFacts {
    /// The name of the question.
    pub name: DnsName,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// When the collector read the answer.
    pub at: Timestamp,
}

/// Rules that are not applied, or not known.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RuleFault {
    /// What is wrong.
    pub fault: RuleFaultKind,
    /// The kind of the object.
    pub kind: String,
    /// The object as `NAMESPACE/NAME`, or the path of a file; `None` if it concerns all of the kind.
    pub object: Option<String>,
    /// The reason in words, if there is more to say.
    pub reason: Option<String>,
}

/// Why rules are not applied, or not known.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RuleFaultKind {
    /// No object can have the name of the rule.
    NameRefused,
    /// A rule of the object has no destination.
    NoDestination,
    /// The objects of the kind cannot be read now: their last known rules apply.
    RulesOutOfSync,
    /// The object or the file cannot be decoded.
    RulesUnreadable,
    /// The objects of the namespace have too many names together.
    RulesLeftOut,
}

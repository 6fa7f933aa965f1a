//! The facts that the programs serve as JSON. Every answer begins with the same [`Head`].
//!
//! - [`Status`] at [`STATUS`]: what a program knows, selected by a [`Query`].
//! - [`Explanation`] at [`EXPLAIN`]: what it knows of one name or address, which an [`Asked`] names.
//! - [`Verification`] at [`VERIFY`]: the differences between the statuses and what a writer wrote.

mod answered;
mod asked;
mod hold;
mod names;
mod policies;
mod problems;
mod query;
mod sets;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    answered::{AnswerLine, ClientAnswer},
    asked::{Asked, Subject},
    hold::HoldFacts,
    names::{
        AddressFacts, AnswerFacts, CapFacts, CollectorFacts, ExplainedName, FailingName, Guard,
        ListedName, NameAddress, NameFacts, NameReferences, PeerFacts, RuleFault, RuleFaultKind,
        RuleReference, SourceFacts, StreamFacts, StreamState, SubjectFacts, UnallowedName,
    },
    policies::{
        ExplainedAddress, ExplainedResolver, ListedResolver, ObjectFacts, ObjectReport,
        PoliciesExplained, PolicyComparison, PolicyWriterFacts, ResolverName, Totals,
    },
    problems::{Condition, Problem, Problems, Reason, Severity},
    query::{Query, QueryError},
    sets::{
        Action, AddressExplained, Comparison, DatabaseFacts, DifferenceKind, Idle, NameExplained,
        OvnWriterFacts, RowAddress, RowExplained, RuleInDatabase, SetDifference, SetFacts,
        SetsExplained,
    },
};
use crate::timestamp::Timestamp;

/// The version of the schema. It grows when a field is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// The path of a [`Status`].
pub const STATUS: &str = "/status.json";

/// The path of an [`Explanation`].
pub const EXPLAIN: &str = "/explain.json";

/// The path of a [`Verification`].
pub const VERIFY: &str = "/verify.json";

/// The number of new addresses that a program remembers.
pub const MOST_NEW_ADDRESSES: usize = 1_000;

/// The longest capture of a collector (`GET /capture/MILLISECONDS/BYTES`), and the longest window of answers
/// (`GET /answers/MILLISECONDS`).
pub const LONGEST_CAPTURE: Duration = Duration::from_secs(600);

/// A program that serves facts.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// From DNS answers to statuses.
    #[default]
    Collector,
    /// From statuses to OVN's address sets.
    OvnWriter,
    /// From statuses to policies.
    PolicyWriter,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Collector, Self::OvnWriter, Self::PolicyWriter];

    /// Its name, as that of its file and of its label in the chart.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collector => "collector",
            Self::OvnWriter => "ovn-writer",
            Self::PolicyWriter => "policy-writer",
        }
    }
}

/// The process that answers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The version of this schema: 1.
    pub schema: u32,
    /// The program.
    pub program: Program,
    /// Its version.
    pub version: String,
    /// The name of its pod.
    pub pod: Option<String>,
    /// The name of its node.
    pub node: Option<String>,
    /// The namespace of its pod.
    pub namespace: Option<String>,
    /// When the process started.
    pub started: Timestamp,
    /// When it answered.
    pub now: Timestamp,
    /// Whether this replica leads. Only the leader writes.
    pub leader: bool,
}

/// An answer of a program.
pub trait Answer {
    /// The process that answered.
    fn head(&self) -> &Head;
}

/// What a program knows. The part of the program is in the field with its name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The process.
    #[serde(flatten)]
    pub head: Head,
    /// The faults that need an administrator, the gravest first.
    #[serde(flatten)]
    pub problems: Problems,
    /// The conditions of readiness.
    pub conditions: Vec<Condition>,
    /// The history of the last hour.
    pub history: Vec<Series>,
    /// The part of a collector.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub collector: Option<CollectorFacts>,
    /// The part of an ovn-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ovn_writer: Option<OvnWriterFacts>,
    /// The part of a policy-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_writer: Option<PolicyWriterFacts>,
}

/// A value over the last hour.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// What it is, with its unit.
    pub title: String,
    /// The seconds between two values.
    pub step_seconds: u64,
    /// The values, the latest last; `null` if there is none, as a delay without events.
    pub values: Vec<Option<f64>>,
}

/// What a program knows of a name or an address. The part of the program is in the field with its name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The process.
    #[serde(flatten)]
    pub head: Head,
    /// The part of a collector.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub collector: Option<SubjectFacts>,
    /// The part of an ovn-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ovn_writer: Option<SetsExplained>,
    /// The part of a policy-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_writer: Option<PoliciesExplained>,
}

/// What a writer wrote, compared with the statuses. The part of the program is in the field with its name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The process.
    #[serde(flatten)]
    pub head: Head,
    /// The part of an ovn-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ovn_writer: Option<Comparison>,
    /// The part of a policy-writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_writer: Option<PolicyComparison>,
}

impl Answer for Status {
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Answer for Explanation {
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Answer for Verification {
    fn head(&self) -> &Head {
        &self.head
    }
}

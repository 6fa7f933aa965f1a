//! `egress explain`: why an address is allowed, or is not, in one answer of the collector, the ovn-writers and the policy-writer.

mod policies;
mod reasons;
mod sets;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;

use clap::{Args, builder::NonEmptyStringValueParser};
use proto::{
    facts::{
        Asked, ExplainedName, Explanation, PoliciesExplained, Program, RuleReference,
        SetsExplained, SubjectFacts,
    },
    timestamp::Timestamp,
};
use runtime::UsageError;
use serde::Serialize;

use self::reasons::Reason;
use crate::{
    nodes::{Writers, leading},
    output::{self, Format},
    targets::{NamespaceArgs, TargetArgs, Targets, Unreachable},
};

/// Prints why an address is allowed, or why a name has none.
///
/// The answer has what the collector knows, and what is in OVN's database on each node. Nodes that say the same are together. Of a
/// policy-writer it has the policies, IPMaps and NetworkSets.
///
/// Exit status 0: a rule has the name, and its addresses are in OVN or in policies. The rule may be Allow or Deny. 1: there is no rule, no
/// address, or a node or policy without it. 2: a program did not answer.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A DNS name, a wildcard as it stands in a rule, or an IP address.
    #[arg(value_name = "NAME|ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    pub about: String,

    #[command(flatten)]
    pub scope: NamespaceArgs,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answers {
    /// The leading collector's, or else that of another one.
    collector: Option<OfCollector>,
    #[serde(flatten)]
    writers: Writers<SetsExplained, PoliciesExplained>,
}

/// What a collector knows, and why the address is missing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfCollector {
    /// The name with its trailing dot, or the address, or the given text if it is neither.
    about: String,
    /// Only the rules of this namespace count.
    namespace: Option<String>,
    /// The time of the facts.
    now: Timestamp,
    /// Whether this replica leads.
    leader: bool,
    /// Whether a rule uses the name, and an address is known.
    is_there: bool,
    #[serde(flatten)]
    facts: SubjectFacts,
    /// Why the address is missing, and what is wrong with the names.
    reasons: Vec<Reason>,
}

impl OfCollector {
    fn new(asked: &Asked, (now, leader): (Timestamp, bool), facts: SubjectFacts) -> Self {
        let has_both = |it: &ExplainedName| {
            let mut addresses = it.facts.addresses.iter();
            addresses.any(|it| it.in_object || it.is_covered) && !it.references.rules.is_empty()
        };
        let is_there = facts.names.iter().any(has_both);
        Self {
            about: asked.text(),
            namespace: asked.namespace.clone(),
            now,
            leader,
            is_there,
            reasons: reasons::reasons(asked, &facts, is_there),
            facts,
        }
    }
}

/// Prints the explanation. Returns whether the name has addresses everywhere.
///
/// # Errors
/// [`UsageError`]: no cluster or no program answers, or stdout cannot be written.
pub(crate) async fn run(args: ExplainArgs) -> anyhow::Result<bool> {
    let targets = args.targets.find().await?;
    let asked = Asked::new(&args.about, args.scope.namespace.clone());
    let path = asked.path();
    let parts = |it: Explanation| (it.ovn_writer, it.policy_writer);
    let (collectors, writers) = tokio::join!(
        targets.ask::<Explanation>(Program::Collector, &path),
        Writers::ask(&targets, &path, parts),
    );
    let (collectors, unreachable) = Unreachable::split(collectors);
    let mut writers = writers?;
    writers.unreachable.splice(0..0, unreachable);
    let answers = Answers {
        collector: leading(collectors).and_then(|(_, it)| {
            let facts = it.collector?;
            Some(OfCollector::new(
                &asked,
                (it.head.now, it.head.leader),
                facts,
            ))
        }),
        writers,
    };
    let text = |answers: &Answers| answers.text(&asked, &targets);
    output::line(&args.output.render(&answers, text)?)?;
    answers.outcome(&targets)
}

impl Answers {
    fn text(&self, asked: &Asked, targets: &Targets) -> String {
        let mut lines = Vec::new();
        if let Some(collector) = &self.collector {
            lines.extend(text::lines(collector, asked));
        }
        let counts = self.counts();
        for group in self
            .writers
            .ovn_writers
            .iter()
            .filter(|_| counts.ovn_writers)
        {
            separate(&mut lines);
            lines.push(format!("In OVN's database, ovn-writer {}:", group.named()));
            let of_group = sets::lines(&group.answer, asked, self.but(&group.answer));
            lines.extend(of_group.iter().map(|line| format!("  {line}")));
        }
        let has_none =
            targets.of(Program::OvnWriter).next().is_none() && self.writers.policy_writer.is_none();
        if has_none && counts.ovn_writers && self.collector.is_some() {
            lines.push(
                "No ovn-writer is asked: see the address sets in OVN's database by ovn-nbctl."
                    .to_owned(),
            );
        }
        let policy_writer = self.writers.policy_writer.as_ref();
        if let Some(it) = policy_writer.filter(|_| counts.policy_writer) {
            separate(&mut lines);
            lines.push(format!("In policies, policy-writer {}:", it.place));
            let of_policies = policies::lines(&it.answer, asked);
            lines.extend(of_policies.iter().map(|line| format!("  {line}")));
        }
        if !self.writers.unreachable.is_empty() {
            separate(&mut lines);
        }
        lines.extend(self.writers.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }

    /// Which programs the name or address concerns, by the kinds of its rules. Without a rule it concerns all.
    fn counts(&self) -> Counts {
        let names = self.collector.iter().flat_map(|it| &it.facts.names);
        let rules: Vec<&RuleReference> = names.flat_map(|name| &name.references.rules).collect();
        let of_kind = |kind: &str| rules.iter().any(|rule| rule.kind == kind);
        // A policy may have an address that no name has any more.
        let is_wanted = self
            .writers
            .policy_writer
            .iter()
            .any(|it| it.answer.is_wanted);
        let is_known = self
            .writers
            .ovn_writers
            .iter()
            .any(|it| !it.answer.names.is_empty());
        let policy_writer = is_wanted || of_kind("DNSResolver");
        let ovn_writers = is_known || of_kind("EgressFirewall");
        Counts {
            ovn_writers: ovn_writers || !policy_writer && rules.is_empty(),
            policy_writer: policy_writer || !ovn_writers && rules.is_empty(),
        }
    }

    /// What the sets lack of the name. Under a wildcard it may have no address at all.
    fn but(&self, answer: &SetsExplained) -> &'static str {
        let names = self.collector.iter().flat_map(|it| &it.facts.names);
        let mut of_rules = names
            .filter(|it| !it.references.rules.is_empty())
            .peekable();
        let has_rule = of_rules.peek().is_some();
        match of_rules.all(|it| it.facts.addresses.is_empty()) {
            true if has_rule => ", which has no address of it",
            _ if self.lacks(answer) => ", which lacks addresses of it",
            _ => "",
        }
    }

    /// Whether a set lacks an address that the collector knows.
    fn lacks(&self, answer: &SetsExplained) -> bool {
        let names = self.collector.iter().flat_map(|it| &it.facts.names);
        let known = names.flat_map(|it| &it.facts.addresses);
        let known: BTreeSet<String> = known.map(|it| it.address.to_string()).collect();
        let differences = answer.names.iter().flat_map(|it| &it.differences);
        differences
            .flat_map(|it| &it.missing)
            .any(|it| known.contains(it))
    }

    /// Whether it is there, everywhere.
    fn outcome(&self, targets: &Targets) -> anyhow::Result<bool> {
        let counts = self.counts();
        let mut writers = self
            .writers
            .ovn_writers
            .iter()
            .filter(|_| counts.ovn_writers);
        let mut policies = self
            .writers
            .policy_writer
            .iter()
            .filter(|_| counts.policy_writer);
        if self.collector.as_ref().is_some_and(|it| !it.is_there)
            || writers.any(|it| !it.answer.is_there || self.lacks(&it.answer))
            || policies.any(|it| !it.answer.is_there)
        {
            return Ok(false);
        }
        let is_missing =
            self.collector.is_none() && targets.of(Program::Collector).next().is_some();
        if is_missing || !self.writers.unreachable.is_empty() || targets.all.is_empty() {
            return Err(UsageError("unknown: not every program answers".to_owned()).into());
        }
        Ok(true)
    }
}

/// Which writers an answer concerns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Counts {
    ovn_writers: bool,
    policy_writer: bool,
}

/// Adds an empty line after what is there.
fn separate(lines: &mut Vec<String>) {
    if !lines.is_empty() {
        lines.push(String::new());
    }
}

/// The number of things that are not listed, as a line.
fn more(lines: &mut Vec<String>, indent: &str, count: usize, what: &str) {
    if count > 0 {
        lines.push(format!(
            "{indent}and {count} more {what}: `-o json` has more"
        ));
    }
}

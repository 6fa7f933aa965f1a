//! `egress explain`: why an address is allowed, or is not, in one answer of the collector, the ovn-writers and the policy-writer.

mod reasons;
#[cfg(test)]
mod tests;
mod text;

use clap::Args;
use proto::facts::{ExplainedName, RuleReference, SubjectFacts};
use runtime::{
    UsageError,
    args::parse_namespace,
    inspect::{Asked, client::Output, text::json},
};
use serde::Serialize;
use serde_json::Value;

use self::reasons::Reason;
use crate::{
    nodes::{Group, OfPolicyWriter, field, groups, items, leading},
    output,
    targets::{Kind, TargetArgs, Targets, Unreachable},
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
    #[arg(value_name = "NAME|ADDRESS")]
    pub about: String,

    /// The namespace whose rules count. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    /// The leading collector's, or else that of another one.
    collector: Option<OfCollector>,
    /// Those of the ovn-writers.
    ovn_writers: Vec<Group>,
    policy_writer: Option<OfPolicyWriter>,
    unreachable: Vec<Unreachable>,
}

/// What a collector knows, and why the address is missing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfCollector {
    /// The name with its trailing dot, or the address, or the given text if it is neither.
    about: String,
    /// Only the rules of this namespace count.
    namespace: Option<String>,
    /// Whether a rule uses the name, and an address is known.
    is_there: bool,
    #[serde(flatten)]
    facts: SubjectFacts,
    /// Why the address is missing, and what is wrong with the names.
    reasons: Vec<Reason>,
}

impl OfCollector {
    fn new(asked: &Asked, facts: SubjectFacts) -> Self {
        let has_both =
            |it: &ExplainedName| !it.facts.addresses.is_empty() && !it.references.rules.is_empty();
        let is_there = facts.names.iter().any(has_both);
        Self {
            about: asked.text(),
            namespace: asked.namespace.clone(),
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
    let path = path(&args);
    let asked = Asked::new(&args.about, args.namespace.clone());
    let (collectors, writers, policy_writers) = tokio::join!(
        targets.ask::<SubjectFacts>(Kind::Collector, &path),
        targets.ask::<Value>(Kind::OvnWriter, &path),
        targets.ask::<Value>(Kind::PolicyWriter, &path)
    );
    let (collectors, mut unreachable) = Unreachable::split(collectors);
    let (writers, more) = Unreachable::split(writers);
    unreachable.extend(more);
    let (policy_writers, more) = Unreachable::split(policy_writers);
    unreachable.extend(more);
    let explanation = Explanation {
        collector: leading(collectors, |facts| facts.leader)
            .map(|(_, facts)| OfCollector::new(&asked, facts)),
        ovn_writers: groups(writers),
        policy_writer: OfPolicyWriter::of(policy_writers),
        unreachable,
    };
    let text = match args.output {
        Output::Json => json(&explanation)?,
        Output::Text => explanation.text(&asked, &targets),
    };
    output::line(&text)?;
    explanation.outcome(&targets)
}

fn path(args: &ExplainArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("about", &args.about);
    if let Some(namespace) = &args.namespace {
        query.append_pair("namespace", namespace);
    }
    format!("/explain.json?{}", query.finish())
}

impl Explanation {
    fn text(&self, asked: &Asked, targets: &Targets) -> String {
        let mut lines = Vec::new();
        if let Some(collector) = &self.collector {
            lines.extend(text::lines(collector, asked));
        }
        let counts = self.counts();
        for group in self.ovn_writers.iter().filter(|_| counts.ovn_writers) {
            separate(&mut lines);
            lines.push(format!("In OVN's database, ovn-writer {}:", group.named()));
            lines.extend(group.text().map(|line| format!("  {line}")));
        }
        let has_none = targets.of(Kind::OvnWriter).next().is_none() && self.policy_writer.is_none();
        if has_none && counts.ovn_writers && self.collector.is_some() {
            lines.push(
                "No ovn-writer is asked: see the address sets in OVN's database by ovn-nbctl."
                    .to_owned(),
            );
        }
        let policy_writer = self.policy_writer.as_ref();
        if let Some(policy_writer) = policy_writer.filter(|_| counts.policy_writer) {
            separate(&mut lines);
            lines.extend(policy_writer.lines("In policies, "));
        }
        if !self.unreachable.is_empty() {
            separate(&mut lines);
        }
        lines.extend(self.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }

    /// Which programs the name or address concerns, by the kinds of its rules. Without a rule it concerns all.
    fn counts(&self) -> Counts {
        let names = self.collector.iter().flat_map(|it| &it.facts.names);
        let rules: Vec<&RuleReference> = names.flat_map(|name| &name.references.rules).collect();
        let of_kind = |kind: &str| rules.iter().any(|rule| rule.kind == kind);
        // A policy may have an address that no name has any more.
        let is_wanted = self
            .policy_writer
            .iter()
            .any(|it| field(&it.answer, "isWanted") == true);
        let is_known = self
            .ovn_writers
            .iter()
            .any(|it| items(&it.answer, "names").next().is_some());
        let policy_writer = is_wanted || of_kind("DNSResolver");
        let ovn_writers = is_known || of_kind("EgressFirewall");
        Counts {
            ovn_writers: ovn_writers || !policy_writer && rules.is_empty(),
            policy_writer: policy_writer || !ovn_writers && rules.is_empty(),
        }
    }

    /// Whether it is there, everywhere.
    fn outcome(&self, targets: &Targets) -> anyhow::Result<bool> {
        let counts = self.counts();
        let writers = self.ovn_writers.iter().filter(|_| counts.ovn_writers);
        let policies = self.policy_writer.iter().filter(|_| counts.policy_writer);
        let policies = policies.map(|it| &it.answer);
        let mut explained = writers.map(|it| &it.answer).chain(policies);
        if self.collector.as_ref().is_some_and(|it| !it.is_there)
            || explained.any(|it| field(it, "isThere") != true)
        {
            return Ok(false);
        }
        let is_missing = self.collector.is_none() && targets.of(Kind::Collector).next().is_some();
        if is_missing || !self.unreachable.is_empty() || targets.all.is_empty() {
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

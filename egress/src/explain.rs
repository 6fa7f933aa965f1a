//! `egress explain`: why an address is allowed, or is not, in one answer of the collector and the ovn-writers.

use clap::Args;
use runtime::{
    UsageError,
    args::parse_namespace,
    inspect::{client::Output, text::json},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    nodes::{Group, field, groups, text_of},
    output,
    targets::{Kind, TargetArgs, Targets, Unreachable},
};

/// Prints why an address is allowed, or why a name has none.
///
/// The answer has what the collector knows, and what is in OVN's database on each node. Nodes that say the same are together.
///
/// Exit status 0: a rule has the name, and its addresses are in OVN. The rule may be Allow or Deny. 1: there is no rule, no address, or a
/// node without it. 2: a program did not answer.
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
    collector: Option<Value>,
    /// Those of the ovn-writers.
    ovn_writers: Vec<Group>,
    unreachable: Vec<Unreachable>,
}

/// Prints the explanation. Returns whether the name has addresses everywhere.
///
/// # Errors
/// [`UsageError`]: no cluster or no program answers, or stdout cannot be written.
pub(crate) async fn run(args: ExplainArgs) -> anyhow::Result<bool> {
    let targets = args.targets.find().await?;
    let path = path(&args);
    let (collectors, writers) = tokio::join!(
        targets.ask::<Value>(Kind::Collector, &path),
        targets.ask::<Value>(Kind::OvnWriter, &path)
    );
    let (collectors, mut unreachable) = Unreachable::split(collectors);
    let (writers, more) = Unreachable::split(writers);
    unreachable.extend(more);
    let is_leader = |answer: &Value| field(answer, "leader") == true;
    let led = collectors.iter().position(|(_, answer)| is_leader(answer));
    let collector = collectors.into_iter().nth(led.unwrap_or(0));
    let explanation = Explanation {
        collector: collector.map(|(_, answer)| answer),
        ovn_writers: groups(writers),
        unreachable,
    };
    let text = match args.output {
        Output::Json => json(&explanation)?,
        Output::Text => explanation.text(&targets),
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
    fn text(&self, targets: &Targets) -> String {
        let mut lines = Vec::new();
        if let Some(collector) = &self.collector {
            lines.extend(text_of(collector));
        }
        for group in &self.ovn_writers {
            separate(&mut lines);
            lines.push(format!("In OVN's database, ovn-writer {}:", group.named()));
            lines.extend(group.text().map(|line| format!("  {line}")));
        }
        if targets.of(Kind::OvnWriter).next().is_none() && self.collector.is_some() {
            lines.push(
                "No ovn-writer is asked: see the address sets in OVN's database by ovn-nbctl."
                    .to_owned(),
            );
        }
        if !self.unreachable.is_empty() {
            separate(&mut lines);
        }
        lines.extend(self.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }

    /// Whether it is there, everywhere.
    fn outcome(&self, targets: &Targets) -> anyhow::Result<bool> {
        let explained = self.ovn_writers.iter().map(|it| &it.answer);
        let mut explained = self.collector.iter().chain(explained);
        if explained.any(|it| field(it, "isThere") != true) {
            return Ok(false);
        }
        let is_missing = self.collector.is_none() && targets.of(Kind::Collector).next().is_some();
        if is_missing || !self.unreachable.is_empty() || targets.all.is_empty() {
            return Err(UsageError("unknown: not every program answers".to_owned()).into());
        }
        Ok(true)
    }
}

/// Adds an empty line after what is there.
fn separate(lines: &mut Vec<String>) {
    if !lines.is_empty() {
        lines.push(String::new());
    }
}

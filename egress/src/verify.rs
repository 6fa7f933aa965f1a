//! `egress verify`: whether the address sets of OVN, and the policies of DNSResolvers, are those of the statuses.

use std::time::Duration;

use clap::Args;
use ovn_writer::{NorthboundArgs, SetsArgs, Verification};
use runtime::{
    UsageError,
    args::{StoreAddress, parse_duration, parse_namespace},
    inspect::{client::Output, text::json},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    nodes::{Group, OfPolicyWriter, field, groups, items},
    output,
    targets::{Kind, TargetArgs, Unreachable},
};

/// Compares the statuses with OVN's databases and with the objects of DNSResolvers once, and prints the differences.
///
/// Every ovn-writer and the leading policy-writer compare what they have read. With `--store` and `--nb` the command reads them itself, and asks no ovn-writer.
///
/// Exit status 0: there are no differences. 1: there are differences. 2: a writer, the store or the database cannot be read.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// The format of the differences.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    #[command(flatten)]
    pub targets: TargetArgs,

    #[command(flatten)]
    pub direct: DirectArgs,
}

/// What is compared without an ovn-writer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Without an ovn-writer")]
pub struct DirectArgs {
    /// The store of the objects: `dir:PATH` or `kube`.
    ///
    /// `dir:PATH` is a folder with YAML manifests. `kube` is the Kubernetes API server. Default: none, the ovn-writers are asked.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["collector", "ovn_writer", "policy_writer", "context"])]
    pub store: Option<StoreAddress>,

    /// The namespace of the DNSNameResolver objects.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "ovn-kubernetes",
        value_parser = parse_namespace
    )]
    pub objects_namespace: String,

    /// How long the store and the database may take to be read.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// The database, and how to connect to it.
    #[command(flatten)]
    pub northbound: NorthboundArgs,

    /// The contents of the address sets.
    #[command(flatten)]
    pub sets: SetsArgs,
}

/// The comparisons of the writers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparisons {
    ovn_writers: Vec<Group>,
    policy_writer: Option<OfPolicyWriter>,
    unreachable: Vec<Unreachable>,
}

/// Prints the differences. Returns whether there are none.
///
/// # Errors
/// [`UsageError`]: a side cannot be read, or stdout cannot be written.
pub(crate) async fn run(args: VerifyArgs) -> anyhow::Result<bool> {
    if let Some(store) = args.direct.store.clone() {
        return directly(args.direct, store, args.output).await;
    }
    let targets = args.targets.find().await?;
    let (answers, of_policies) = tokio::join!(
        targets.ask::<Value>(Kind::OvnWriter, "/verify.json"),
        targets.ask::<Value>(Kind::PolicyWriter, "/verify.json"),
    );
    if answers.is_empty() && of_policies.is_empty() {
        let error =
            "there is no writer to ask: give --store and --nb, --ovn-writer, or --policy-writer";
        return Err(UsageError(error.to_owned()).into());
    }
    let (answers, mut unreachable) = Unreachable::split(answers);
    let (of_policies, more) = Unreachable::split(of_policies);
    unreachable.extend(more);
    let comparisons = Comparisons {
        ovn_writers: groups(answers),
        policy_writer: OfPolicyWriter::of(of_policies),
        unreachable,
    };
    let text = match args.output {
        Output::Json => json(&comparisons)?,
        Output::Text => comparisons.text(),
    };
    output::line(&text)?;
    let of_sets = comparisons.ovn_writers.iter().map(|it| &it.answer);
    let of_policies = comparisons.policy_writer.iter().map(|it| &it.answer);
    let mut all = of_sets.chain(of_policies.clone());
    if all.any(|answer| field(answer, "isSame") != true) {
        return Ok(false);
    }
    if !comparisons.unreachable.is_empty() {
        return Err(UsageError("unknown: not every writer answers".to_owned()).into());
    }
    if of_policies.into_iter().any(has_unread) {
        let error = "unknown: the policy-writer has not read all kinds of objects";
        return Err(UsageError(error.to_owned()).into());
    }
    Ok(true)
}

/// Whether a policy-writer has not read some kind of objects, which it then compares with nothing.
fn has_unread(answer: &Value) -> bool {
    items(answer, "reasons").any(|reason| field(reason, "reason") == "NotRead")
}

async fn directly(args: DirectArgs, store: StoreAddress, output: Output) -> anyhow::Result<bool> {
    let verification = Verification {
        objects_namespace: args.objects_namespace,
        northbound: args.northbound,
        sets: args.sets,
        timeout: args.timeout,
    };
    let verified = verification.run(&store).await?;
    let text = match output {
        Output::Json => json(&verified)?,
        Output::Text => verified.to_string(),
    };
    output::line(&text)?;
    Ok(verified.is_same())
}

impl Comparisons {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for group in &self.ovn_writers {
            lines.push(format!("ovn-writer {}:", group.named()));
            lines.extend(group.text().map(|line| format!("  {line}")));
        }
        lines.extend(self.policy_writer.iter().flat_map(|it| it.lines("")));
        lines.extend(self.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_policy_writer_has_not_read_is_not_the_same() {
        let with = |reason: &str| json!({ "isSame": true, "reasons": [{ "reason": reason, "words": "" }] });
        assert!(has_unread(&with("NotRead")));
        assert!(!has_unread(&with("NotLeading")));
        assert!(!has_unread(&json!({ "isSame": true, "reasons": [] })));
    }
}

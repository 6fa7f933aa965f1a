//! `egress verify`: whether the address sets of OVN are those of the statuses.

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
    nodes::{Group, field, groups},
    output,
    targets::{Kind, TargetArgs, Unreachable},
};

/// Compares the statuses with OVN's databases once, and prints the differences.
///
/// Every ovn-writer compares what it has read. With `--store` and `--nb` the command reads them itself, and asks no ovn-writer.
///
/// Exit status 0: there are no differences. 1: there are differences. 2: an ovn-writer, the store or the database cannot be read.
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
    #[arg(long, value_name = "STORE", conflicts_with_all = ["collector", "ovn_writer", "context"])]
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

/// The comparisons of the nodes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparisons {
    ovn_writers: Vec<Group>,
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
    let answers = targets.ask::<Value>(Kind::OvnWriter, "/verify.json").await;
    if answers.is_empty() {
        let error = "there is no ovn-writer to ask: give --store and --nb, or --ovn-writer";
        return Err(UsageError(error.to_owned()).into());
    }
    let (answers, unreachable) = Unreachable::split(answers);
    let comparisons = Comparisons {
        ovn_writers: groups(answers),
        unreachable,
    };
    let text = match args.output {
        Output::Json => json(&comparisons)?,
        Output::Text => comparisons.text(),
    };
    output::line(&text)?;
    let mut same = comparisons
        .ovn_writers
        .iter()
        .map(|it| field(&it.answer, "isSame") == true);
    if same.any(|same| !same) {
        return Ok(false);
    }
    if !comparisons.unreachable.is_empty() {
        return Err(UsageError("unknown: not every ovn-writer answers".to_owned()).into());
    }
    Ok(true)
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
        lines.extend(self.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }
}

//! `egress list`: names and addresses, with their origins, their sets and their policies.

mod policies;
mod sets;
mod table;

use clap::{Args, ValueEnum};
use runtime::{UsageError, args::parse_namespace, inspect::text::json};
use serde::Serialize;
use serde_json::Value;

use self::{policies::PolicyIndex, sets::SetIndex};
use crate::nodes::{field, leading, leads};
use crate::{
    output,
    pattern::NamePattern,
    targets::{Kind, Target, TargetArgs, Targets, Unreachable},
};

/// Lists names with their addresses.
///
/// A line has the origin of an address, and until when it is kept. It has the namespaces that asked, and how many nodes have the address.
/// Names and addresses come from the collector that leads, sets from all ovn-writers. A policy-writer adds the DNSResolvers whose policies
/// have the address.
///
/// Exit status 0: all programs answered. 2: one did not.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only names that contain this text, or match it if it has a `*`, such as `*.example.com`. Default: all names.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<NamePattern>,

    /// Only names in rules of this namespace. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The format of the list.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: ListOutput,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The format of a list.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum ListOutput {
    /// A table with a line for each address
    #[default]
    Table,
    /// The table with more columns
    Wide,
    /// JSON, one object
    Json,
    /// YAML, the same object
    Yaml,
}

/// The list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    /// The time of the names.
    at: Value,
    /// The collector that they come from, and whether it leads.
    collector: String,
    is_leader: bool,
    /// The names as `/names.json` has them, each with its `sets` and `dnsResolvers`.
    names: Vec<Value>,
    unreachable: Vec<Unreachable>,
    /// The number of ovn-writers that answered.
    #[serde(skip)]
    writers: usize,
    /// Whether a policy-writer answered.
    #[serde(skip)]
    has_policies: bool,
}

/// Prints the list. Returns whether every program answered, or fails.
///
/// # Errors
/// [`UsageError`]: no collector or not every program answers, or stdout cannot be written.
pub(crate) async fn run(args: ListArgs) -> anyhow::Result<bool> {
    let targets = args.targets.find().await?;
    let mut list = names(&args, &targets).await?;
    let filter = args.name.as_ref().map(NamePattern::longest_part);
    let ((sets, unreachable), (policies, more)) = tokio::join!(
        SetIndex::read(&targets, filter),
        PolicyIndex::read(&targets, filter, args.namespace.as_deref()),
    );
    list.unreachable.extend(unreachable.into_iter().chain(more));
    list.writers = sets.writers;
    list.has_policies = policies.is_known;
    for name in &mut list.names {
        let text = field(name, "name").as_str().unwrap_or_default();
        let found = serde_json::to_value(sets.of(text))?;
        let resolvers = serde_json::to_value(policies.of(text))?;
        if let Some(fields) = name.as_object_mut() {
            fields.insert("sets".to_owned(), found);
            fields.insert("dnsResolvers".to_owned(), resolvers);
        }
    }
    output::line(&match args.output {
        ListOutput::Table => table::table(&list, args.name.as_ref(), false),
        ListOutput::Wide => table::table(&list, args.name.as_ref(), true),
        ListOutput::Json => json(&list)?,
        ListOutput::Yaml => serde_saphyr::to_string(&list)?.trim_end().to_owned(),
    })?;
    if !list.unreachable.is_empty() {
        return Err(UsageError("the list is incomplete: not every program answers".into()).into());
    }
    Ok(true)
}

/// The names of the collector that leads, or else of another one.
async fn names(args: &ListArgs, targets: &Targets) -> anyhow::Result<List> {
    let first = path(args, None);
    let answers = targets.ask::<Value>(Kind::Collector, &first).await;
    let (answers, unreachable) = Unreachable::split(answers);
    let Some((target, mut page)) = leading(answers, leads) else {
        let reasons: Vec<String> = unreachable.iter().map(ToString::to_string).collect();
        let error = format!("no collector answers: {}", reasons.join("; "));
        return Err(UsageError(error).into());
    };
    let mut list = List {
        at: field(&page, "at").clone(),
        collector: target.place.clone(),
        is_leader: leads(&page),
        names: Vec::new(),
        unreachable,
        writers: 0,
        has_policies: false,
    };
    loop {
        if let Value::Array(names) = page.get_mut("names").map_or(Value::Null, Value::take) {
            let names = names.into_iter();
            list.names.extend(names.filter(|name| args.selects(name)));
        }
        let Some(after) = field(&page, "next").as_str() else {
            return Ok(list);
        };
        page = next_page(target, &path(args, Some(after))).await?;
    }
}

async fn next_page(target: &Target, path: &str) -> anyhow::Result<Value> {
    let page = target.ask(path).await;
    page.map_err(|error| UsageError(format!("the {target} does not answer: {error:#}")).into())
}

fn path(args: &ListArgs, after: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let filter = args.name.as_ref().map(NamePattern::longest_part);
    for (key, value) in [
        ("filter", filter),
        ("namespace", args.namespace.as_deref()),
        ("after", after),
    ] {
        query.extend_pairs(value.map(|value| (key, value)));
    }
    format!("/names.json?{}", query.finish())
}

impl ListArgs {
    /// Whether the name, or one of the names under it, matches `--name`.
    fn selects(&self, name: &Value) -> bool {
        self.name.as_ref().is_none_or(|pattern| {
            let matches = |name: &Value| name.as_str().is_some_and(|it| pattern.matches(it));
            matches(field(name, "name"))
                || addresses(name).any(|address| matches(field(address, "name")))
        })
    }
}

/// The addresses of a name, as the collector has them.
fn addresses(name: &Value) -> impl Iterator<Item = &Value> {
    field(name, "addresses").as_array().into_iter().flatten()
}

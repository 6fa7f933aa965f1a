//! `egress learn`: which names the pods of a namespace ask for, as rules, and which of them the rules would not pass.

mod clients;
mod proposal;
mod rules;
mod tap;
mod window;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{ArgGroup, Args, ValueEnum};
use ipnet::IpNet;
use proto::{
    api::Verdict,
    facts::Query,
    text::{few, printable},
};
use runtime::{
    UsageError,
    args::{format_duration, parse_namespace},
};

use self::{
    clients::Clients,
    proposal::{Proposal, reason},
    rules::Objects,
    window::Asked,
};
use crate::{
    corefile::args::ScopeArgs,
    nodes::leading_collector,
    output,
    targets::{Access, TargetArgs, parse_window},
};

/// Says which rules a namespace needs: those of the names that its pods ask for.
///
/// For a while the command listens to the answers that the leading collector reads. Then it prints an EgressFirewall with the names, those
/// asked for most often first. It changes nothing, and the collector keeps nothing. A name that no pod asked for in this time is missing.
///
/// Exit status 0. With `--against`: 1 if connections to a name would not pass. 2: a program or the cluster does not answer.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("whose").required(true).args(["namespace", "client"])))]
pub struct LearnArgs {
    /// The namespace whose pods are listened to. Pods on the host network are left out.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The addresses or networks of clients, in place of a namespace; repeatable. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = parse_client)]
    pub client: Vec<IpNet>,

    /// How long it listens, at most 10m. Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = parse_window)]
    pub duration: Duration,

    /// Say which of the names the rules of the namespace would not pass.
    #[arg(long)]
    pub against: bool,

    /// As `--against`, with the rules of this file, which need not be applied yet. Default: none.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// DNSResolvers, whose NetworkPolicies allow their names alone, in place of an EgressFirewall.
    #[arg(long)]
    pub policy: bool,

    /// The format of the proposal.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: LearnOutput,

    #[command(flatten)]
    pub scope: ScopeArgs,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The format of a proposal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum LearnOutput {
    /// A manifest for kubectl
    #[default]
    Yaml,
}

/// Prints what was learned. Returns whether all names would pass, if they were compared with rules.
///
/// # Errors
/// The cluster or the collector does not answer; the rules cannot be read.
pub(crate) async fn run(args: LearnArgs) -> anyhow::Result<bool> {
    let access = match args.namespace.is_none() && args.targets.are_local() {
        true => None,
        false => Some(Access::new(&args.targets.cluster).await?),
    };
    // Before the window, so that a fault shows at once.
    let objects = match args.against || args.file.is_some() {
        true => Some(Objects::read(&args, access.as_ref()).await?),
        false => None,
    };
    let targets = args.targets.find().await?;
    let (collector, ..) = leading_collector(&targets, &Query::all()).await?;
    let mut clients = match (&args.namespace, &access) {
        (Some(namespace), Some(access)) => Clients::of_namespace(access, namespace).await?,
        _ => Clients::of(args.client.clone()),
    };
    let began = Instant::now();
    let lost = tap::listen(collector, args.duration, &mut clients).await?;
    let notes = notes(&args, &clients, began.elapsed(), lost);
    let asked = clients.window.names();
    if asked.is_empty() {
        let error = "no answer was heard: see that these clients ask, and that the DNS servers stream (egress check)";
        return Err(UsageError(error.to_owned()).into());
    }
    if let Some(objects) = objects {
        let (text, all_pass) = compared(&asked, &objects, &args, &notes);
        output::line(&text)?;
        return Ok(all_pass);
    }
    let proposal = Proposal {
        namespace: args.namespace.as_deref(),
        is_policy: args.policy,
        cluster_domains: &args.scope.cluster_domain,
    };
    output::line(proposal.text(&asked, &notes).trim_end())?;
    Ok(true)
}

/// What a reader has to know, in sentences.
fn notes(args: &LearnArgs, clients: &Clients, time: Duration, lost: u64) -> Vec<String> {
    let whose = match &args.namespace {
        Some(namespace) => format!("pods of namespace {namespace}"),
        None => "these clients".to_owned(),
    };
    let time = format_duration(Duration::from_secs(time.as_secs().max(1)));
    let mut notes = vec![format!(
        "Names that {whose} asked for in {time}. DNS does not say to which ports they connect."
    )];
    if args.policy {
        notes.push("Other NetworkPolicies of the namespace may allow more.".to_owned());
    }
    notes.extend(clients.hidden());
    if lost > 0 {
        let words = "bytes of events came too fast: names may be missing.";
        notes.push(format!("{lost} {words}"));
    }
    let error = clients.window.error();
    if error > 0 {
        notes.push(format!(
            "More than 10,000 names: the rarest are left out, and a count may be {error} too high."
        ));
    }
    notes
}

/// The names that would not pass, and whether all would.
fn compared(
    asked: &[Asked],
    objects: &Objects,
    args: &LearnArgs,
    notes: &[String],
) -> (String, bool) {
    let known = |it: &Asked| (it.name.clone(), it.addresses.clone());
    let rules = objects.rules(&asked.iter().map(known).collect::<Vec<_>>());
    let notes = notes.iter().map(|note| format!("# {}", printable(note)));
    let mut lines: Vec<String> = notes.collect();
    for index in rules.iter().flat_map(|rules| rules.unknown()) {
        lines.push(format!(
            "? egress[{index}] is not judged: its destination is neither a name nor a network"
        ));
    }
    let mut blocked = 0;
    for asked in asked {
        let name = printable(&asked.name);
        if let Some(reason) = reason(asked, &args.scope.cluster_domain) {
            lines.push(format!("? {name}: {}", printable(&reason)));
            continue;
        }
        let mut verdicts: BTreeMap<Verdict, Vec<IpAddr>> = BTreeMap::new();
        for address in &asked.addresses {
            let verdict = rules.as_ref().map(|rules| rules.verdict(*address));
            let verdict = verdict.unwrap_or(Verdict::Passes);
            verdicts.entry(verdict).or_default().push(*address);
        }
        verdicts.remove(&Verdict::Passes);
        blocked += usize::from(verdicts.keys().any(Verdict::is_blocked));
        for (verdict, addresses) in verdicts {
            let mark = if verdict.is_blocked() { '✗' } else { '!' };
            let addresses = few(addresses.iter(), output::MOST_NAMED);
            let times = asked.times();
            lines.push(format!("{mark} {name}, {times}: {addresses}: {verdict}"));
        }
    }
    let all = asked.len();
    lines.push(format!("{blocked} of {all} names would not pass."));
    (lines.join("\n"), blocked == 0)
}

/// An address, or a network.
fn parse_client(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse::<IpNet>());
    network.map_err(|_| "it is neither an address nor a network".to_owned())
}

#[cfg(test)]
mod tests;

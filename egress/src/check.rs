//! `egress check`: whether the whole chain works, a line for each part of it.
//!
//! - `gather`: asks the API server and the programs. `facts`, `programs`, `workloads`: their answers. `seen`:
//!   an answer, or why there is none.
//! - A module for each topic makes findings of the facts. [`TOPICS`] has them in order.
//! - `folder`: the topic of a store in a folder.
//! - `pre`: the topics before an installation. `report`: the findings as text and JSON.

mod admission;
mod api_server;
mod dns_servers;
mod facts;
mod folder;
mod gather;
mod lease;
mod name_servers;
mod names;
mod nodes;
mod ovn_kubernetes;
mod pods;
mod policies;
mod policy_writers;
mod pre;
mod programs;
mod report;
mod running;
mod seen;
mod sets;
mod streaming;
mod workloads;

use clap::Args;
use runtime::{
    args::{StoreAddress, parse_namespace},
    inspect::{client::Output, text::json},
    store::ObjectKey,
};

use self::{
    facts::Facts,
    programs::Programs,
    report::{Finding, Report},
    workloads::Settings,
};
use crate::{
    corefile::args::{MaybeObject, ScopeArgs},
    output,
    targets::{Access, TargetArgs},
};

/// Checks whether the whole chain works, from the API server to OVN's address sets and to the policies of DNSResolvers.
///
/// Each line begins with a mark. `✓`: it works. `!`: it works, with a remark. `✗`: a fault. `?`: it could not be seen. Below it is what to
/// do.
///
/// Exit status 0: no fault. 1: a fault. 2: no fault, but something could not be seen.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Check a cluster before the installation.
    #[arg(long, conflicts_with_all = ["collector", "ovn_writer", "policy_writer", "store"])]
    pub pre: bool,

    /// The folder with the objects, as `dir:PATH`, for programs outside of a cluster.
    ///
    /// With this flag the command asks no cluster. Default: none.
    #[arg(long, value_name = "STORE", value_parser = parse_folder, conflicts_with = "context")]
    pub store: Option<StoreAddress>,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    #[command(flatten)]
    pub targets: TargetArgs,

    #[command(flatten)]
    pub corefiles: CheckedCorefileArgs,

    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Where things are that the flags of a running collector tell.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Before the installation")]
pub struct ClusterArgs {
    /// The namespace of the DNSNameResolver objects.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "ovn-kubernetes",
        value_parser = parse_namespace,
        requires = "pre"
    )]
    pub objects_namespace: String,

    /// The Service of the cluster's DNS servers; repeatable.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/kube-dns",
        value_delimiter = ',',
        requires = "pre"
    )]
    pub dns_service: Vec<ObjectKey>,
}

/// The Corefiles of the cluster's DNS servers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Corefiles")]
pub struct CheckedCorefileArgs {
    /// The ConfigMap with the Corefile, or `none`.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/coredns"
    )]
    pub corefile: MaybeObject,

    /// The NodeLocal DNSCache, by the name of both its DaemonSet and its ConfigMap, or `none`.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "kube-system/node-local-dns"
    )]
    pub node_local: MaybeObject,

    #[command(flatten)]
    pub scope: ScopeArgs,
}

fn parse_folder(text: &str) -> Result<StoreAddress, &'static str> {
    match text.parse()? {
        StoreAddress::Kube => Err("give a folder as `dir:PATH`; a cluster needs no --store"),
        folder @ StoreAddress::Dir(_) => Ok(folder),
    }
}

impl ClusterArgs {
    fn settings(&self, corefiles: &CheckedCorefileArgs) -> Settings {
        Settings {
            objects_namespace: self.objects_namespace.clone(),
            dns_services: self.dns_service.clone(),
            corefile: corefiles.corefile.0.clone(),
            node_local: corefiles.node_local.0.clone(),
            cluster_domains: corefiles.scope.cluster_domain.clone(),
            ..Settings::default()
        }
    }
}

/// Prints the findings. Returns whether there is no fault.
///
/// # Errors
/// [`runtime::UsageError`]: something could not be seen, and the rest has no fault; no cluster is configured; stdout cannot be written.
pub(crate) async fn run(args: CheckArgs) -> anyhow::Result<bool> {
    let report = Report::new(findings(&args).await?);
    let text = match args.output {
        Output::Json => json(&report)?,
        Output::Text => report.text(),
    };
    output::line(&text)?;
    Ok(report.outcome()?)
}

/// The findings of some topics. Without an API server nothing else can be seen.
fn found(facts: &Facts, topics: &[Check]) -> Vec<Finding> {
    if facts.version.is_err() {
        return api_server::api_server(facts);
    }
    topics.iter().flat_map(|check| check(facts)).collect()
}

async fn findings(args: &CheckArgs) -> anyhow::Result<Vec<Finding>> {
    if !args.pre && (args.targets.are_local() || args.store.is_some()) {
        let mut findings = Vec::new();
        if let Some(StoreAddress::Dir(path)) = &args.store {
            findings.extend(folder::folder(path).await);
        }
        let programs = Programs::ask(&args.targets.find_local()).await;
        findings.extend(local(&args.targets, &programs));
        return Ok(findings);
    }
    let access = Access::new(&args.targets).await?;
    let facts = gather::cluster(&access, args.cluster.settings(&args.corefiles), args.pre).await;
    Ok(found(&facts, if args.pre { pre::TOPICS } else { TOPICS }))
}

/// A topic: from facts to findings.
type Check = fn(&Facts) -> Vec<Finding>;

/// The chain in a cluster, in the order of an address's way.
const TOPICS: &[Check] = &[
    api_server::api_server,
    api_server::resources,
    pods::pods,
    admission::admission,
    nodes::writers_of_nodes,
    |facts| running::collectors(&facts.programs),
    lease::lease,
    streaming::corefile,
    streaming::node_local,
    name_servers::name_servers,
    dns_servers::coredns,
    policies::policies,
    dns_servers::streams,
    ovn_kubernetes::ovn_kubernetes,
    |facts| running::writers(&facts.programs, facts.no_writer()),
    |facts| names::names(&facts.programs),
    |facts| names::limits(&facts.programs),
    |facts| sets::sets(&facts.programs, facts.no_writer()),
    policy_writers::policy_writers,
    policy_writers::dns_resolvers,
];

/// The chain of programs at local sockets.
fn local(targets: &TargetArgs, programs: &Programs) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !targets.collector.is_empty() {
        findings.extend(running::collectors(programs));
        findings.extend(lease::local(programs));
        findings.extend(dns_servers::local_streams(programs));
        findings.extend(names::names(programs));
        findings.extend(names::limits(programs));
    }
    if !targets.ovn_writer.is_empty() {
        findings.extend(running::writers(programs, None));
        findings.extend(sets::sets(programs, None));
    }
    if !targets.policy_writer.is_empty() {
        findings.extend(policy_writers::local(programs));
    }
    findings
}

#[cfg(test)]
mod tests;

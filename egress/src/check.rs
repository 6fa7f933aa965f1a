//! `egress check`: whether the whole chain works, a line for each part of it.
//!
//! - `gather`: asks the API server and the programs. `facts`, `programs`, `workloads`: their answers. `seen`:
//!   an answer, or why there is none.
//! - A function for each topic makes findings of the facts. [`TOPICS`] has them in order.
//! - `report`: the findings as text and JSON.

mod api_server;
mod dns_servers;
mod facts;
mod gather;
mod hold;
mod name_servers;
mod ovn_kubernetes;
mod pods;
mod programs;
mod report;
mod running;
mod seen;
mod streaming;
mod workloads;

use std::time::Duration;

use clap::Args;
use runtime::{
    args::{parse_duration, parse_namespace},
    store::ObjectKey,
};
use tokio::time::{Instant, sleep};

pub(crate) use self::{
    dns_servers::wait_for_streams,
    gather::requests::{find, list},
    report::{Finding, Report, Topic},
    seen::Unseen,
    streaming::Endpoints,
};
use self::{facts::Facts, programs::Programs, workloads::Settings};
use crate::{
    corefile::args::{MaybeObject, ScopeArgs},
    output::{self, Format},
    targets::{Access, TargetArgs},
};

/// The pause between two checks of `--wait`.
const WAIT_INTERVAL: Duration = Duration::from_secs(2);

/// Checks whether the whole chain works, from the API server to OVN's address sets and to the policies of DNSResolvers.
///
/// Each line begins with a mark. `✓`: it works. `!`: it works, with a remark. `✗`: a fault. `?`: it could not be seen. Below it is what to
/// do.
///
/// Exit status 0: no fault. 1: a fault. 2: no fault, but something could not be seen.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Check a cluster before the installation.
    #[arg(long, conflicts_with_all = ["collector", "ovn_writer", "policy_writer"])]
    pub pre: bool,

    /// How long the check is repeated while it finds a fault or cannot see something. Default: once.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub wait: Option<Duration>,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

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
    let until = Instant::now() + args.wait.unwrap_or_default();
    let report = loop {
        let report = Report::new(findings(&args).await?);
        if matches!(report.outcome(), Ok(true)) || Instant::now() >= until {
            break report;
        }
        sleep(WAIT_INTERVAL).await;
    };
    output::line(&args.output.render(&report, Report::text)?)?;
    Ok(report.outcome()?)
}

async fn findings(args: &CheckArgs) -> anyhow::Result<Vec<Finding>> {
    if args.targets.are_local() {
        let programs = Programs::ask(&args.targets.find_local()).await;
        return Ok(local(&args.targets, &programs));
    }
    let access = Access::new(&args.targets.cluster).await?;
    let facts = gather::cluster(&access, args.cluster.settings(&args.corefiles)).await;
    Ok(found(&facts, if args.pre { BEFORE } else { TOPICS }))
}

/// The findings of some topics. Without an API server nothing else can be seen.
fn found(facts: &Facts, topics: &[Check]) -> Vec<Finding> {
    if facts.version.is_err() {
        return api_server::api_server(facts);
    }
    topics.iter().flat_map(|check| check(facts)).collect()
}

/// A topic: from facts to findings.
type Check = fn(&Facts) -> Vec<Finding>;

/// The chain in a cluster, in the order of an address's way.
const TOPICS: &[Check] = &[
    api_server::api_server,
    pods::pods,
    |facts| running::collectors(&facts.programs),
    streaming::corefile,
    streaming::node_local,
    hold::hold,
    name_servers::name_servers,
    dns_servers::coredns,
    |facts| dns_servers::streams(&facts.programs),
    ovn_kubernetes::ovn_kubernetes,
    |facts| running::writers(&facts.programs, facts.no_writer()),
    |facts| running::names(&facts.programs),
    |facts| running::sets(&facts.programs, facts.no_writer()),
    running::policy_writers,
];

/// Before an installation: which values it needs.
const BEFORE: &[Check] = &[
    api_server::api_server,
    ovn_kubernetes::before,
    dns_servers::coredns,
    name_servers::name_servers,
];

/// The chain of programs at local sockets.
fn local(targets: &TargetArgs, programs: &Programs) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !targets.collector.is_empty() {
        findings.extend(running::collectors(programs));
        findings.extend(dns_servers::streams(programs));
        findings.extend(running::names(programs));
        findings.extend(hold::local(programs));
    }
    if !targets.ovn_writer.is_empty() {
        findings.extend(running::writers(programs, None));
        findings.extend(running::sets(programs, None));
    }
    if !targets.policy_writer.is_empty() {
        findings.extend(running::local_policy_writers(programs));
    }
    findings
}

#[cfg(test)]
mod tests;

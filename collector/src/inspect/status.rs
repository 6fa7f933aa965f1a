//! What is shown: the fields of `/status.json`.

use std::{net::IpAddr, sync::Arc};

use runtime::{
    admin::Condition,
    store::{BadObject, ObjectKey},
};
use serde::Serialize;

use super::InspectSources;
use crate::{
    corefile::live::{LiveView, State as CorefileState},
    flush::BlockView,
    objects::{NameView, View},
    observe::{DnsServers, Drops, PeerView, host_network::ADVICE},
    pods::PodsView,
    rules::Overview,
};

/// So many namespaces are shown.
const MOST_NAMESPACES: usize = 1_000;

/// What is known. Names, and what stands in rules, are what somebody wrote: they are to be escaped where they are shown.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the program.
    pub version: &'static str,
    /// What the controller knows. Of the namespaces that have too much there are at most 1,000.
    #[serde(flatten)]
    pub view: View,
    /// What the readiness of the program depends on.
    pub conditions: Vec<Condition>,
    /// How many EgressFirewalls there are.
    pub egress_firewalls: usize,
    /// What is wrong with them.
    pub faults: Vec<FaultStatus>,
    /// EgressFirewalls that do not decode and were never known; while there are any, objects that no rule is known to use are kept.
    pub unknown_egress_firewalls: Vec<ObjectKey>,
    /// Objects that do not decode, at most 100 of each kind. What was known of them holds.
    pub bad_objects: Vec<BadObject>,
    /// The server blocks of DNS servers, and their dnstap streams; none if nothing is probed (`--flush-probe 0`).
    pub dns_blocks: Arc<Vec<BlockView>>,
    /// DNS servers whose dnstap streams are refused, though they are listed.
    pub refused_dns_servers: Vec<RefusedDnsServerStatus>,
    /// The Corefiles in the cluster that are looked at (`--corefile`, `--node-local`).
    pub corefiles: Vec<LiveView>,
    /// Pods that bypass the cluster's DNS; none if another replica leads.
    pub pods: Option<Arc<PodsView>>,
    /// Who is connected with a dnstap stream.
    pub peers: Vec<PeerView>,
    /// Observations that were dropped, in this process's life.
    pub drops: Drops,
}

/// A DNS server whose dnstap streams are refused.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedDnsServerStatus {
    /// Its address.
    pub server: IpAddr,
    /// Why: `host_network`, it has the address of a Node and streams without TLS or secret.
    pub reason: &'static str,
    /// What it means, and what to do about it.
    pub words: &'static str,
}

/// One kind of fault of an EgressFirewall.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    /// `NAMESPACE/NAME`.
    pub egress_firewall: ObjectKey,
    /// The reason of its Event.
    pub reason: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// How many rules, names or annotations it is about.
    pub count: usize,
    /// At most 100 of them.
    pub subjects: Vec<String>,
}

impl Status {
    pub(super) fn new(mut view: View, sources: &InspectSources) -> Self {
        view.namespaces.truncate(MOST_NAMESPACES);
        let overview = sources.overview.borrow();
        let corefiles = sources.corefiles.iter();
        let corefiles = corefiles.filter_map(|it| it.borrow().clone());
        let refused = sources.dns_servers.iter().flat_map(DnsServers::refused);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            view,
            conditions: sources.health.conditions(),
            egress_firewalls: overview.egress_firewalls,
            faults: faults(&overview),
            unknown_egress_firewalls: overview.undecodable.iter().cloned().collect(),
            bad_objects: sources.bad_objects.list(),
            dns_blocks: Arc::clone(&sources.blocks.borrow()),
            refused_dns_servers: refused
                .map(|server| RefusedDnsServerStatus {
                    server,
                    reason: "host_network",
                    words: ADVICE,
                })
                .collect(),
            corefiles: corefiles
                .filter(|it| it.state != CorefileState::Absent)
                .collect(),
            pods: sources.pods.borrow().clone(),
            peers: sources.connections.view(),
            drops: sources.connections.drops(),
        }
    }
}

/// Whether an administrator should look at a name.
pub(super) fn is_troubled(name: &NameView) -> bool {
    let lost = name.evictions.addresses + name.evictions.names > 0;
    name.failing > 0
        || name.addresses == 0
        || name.objects.len() != 1
        || lost
        || name.failed_writes > 0
        || name.held
        || name.left_out
}

fn faults(overview: &Overview) -> Vec<FaultStatus> {
    let all = overview.faults.iter();
    let all = all.flat_map(|(key, faults)| faults.iter().map(move |found| (key, found)));
    all.map(|(key, (fault, subjects))| FaultStatus {
        egress_firewall: key.clone(),
        reason: fault.reason(),
        meaning: fault.meaning(),
        count: subjects.count,
        subjects: subjects.kept.iter().cloned().collect(),
    })
    .collect()
}

//! What is shown: the fields of `/status.json`.

use std::{collections::BTreeMap, net::IpAddr};

use runtime::{admin::Condition, clock::Timestamp, inspect::text::time, store::BadObject};
use serde::Serialize;

use super::namespaces::{self, NamespaceStatus};
use crate::{
    corefile::{
        Finding,
        live::{LiveView, State},
    },
    flush::BlockView,
    ingest::{Drops, PeerView, host_network::ADVICE},
    owner::{Evictions, FailureView, NameView, View},
    pods::{PodView, PodsView},
    policy::Overview,
};

/// What is known. Names, and what stands in rules, are what somebody wrote: they are to be escaped where they are shown.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the program.
    pub version: &'static str,
    /// When this was so, as RFC 3339 has it.
    pub at: String,
    /// Whether this replica looks names up, removes addresses, and makes and deletes objects.
    pub leader: bool,
    /// What the readiness of the program depends on.
    pub conditions: Vec<ConditionStatus>,
    /// How many EgressFirewalls there are.
    pub egress_firewalls: usize,
    /// What is wrong with them.
    pub faults: Vec<FaultStatus>,
    /// EgressFirewalls that do not decode and were never known; while there are any, objects that no rule is known to use are kept.
    pub unknown_egress_firewalls: Vec<String>,
    /// Objects that do not decode, at most 100 of each kind. What was known of them holds.
    pub bad_objects: Vec<BadObjectStatus>,
    /// The server blocks of DNS servers, and their dnstap streams; none if nothing is probed (`--flush-probe 0`).
    pub dns_blocks: Vec<DnsBlockStatus>,
    /// DNS servers whose dnstap streams are refused, though they are listed.
    pub refused_dns_servers: Vec<RefusedDnsServerStatus>,
    /// The Corefiles in the cluster that are looked at (`--corefile`, `--node-local`).
    pub corefiles: Vec<CorefileStatus>,
    /// Pods that bypass the cluster's DNS; none if another replica leads.
    pub pods: Option<PodsStatus>,
    /// Who is connected with a dnstap stream.
    pub peers: Vec<PeerStatus>,
    /// Observations that were dropped, in this process's life.
    pub drops: DropsStatus,
    /// How many names wait to be looked up, or are being looked up.
    pub lookups: usize,
    /// What went because a limit was reached, in this process's life.
    pub evictions: EvictionStatus,
    /// Namespaces that have too many addresses or names, so that something of theirs is left out; at most 1,000.
    pub namespaces_over_limit: Vec<NamespaceStatus>,
    /// The names in use, and those of objects.
    pub names: Vec<NameStatus>,
}

/// A condition of readiness.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionStatus {
    /// Its name.
    pub name: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why it does not hold, or what is wrong though it does.
    pub reason: Option<String>,
}

/// An object that does not decode.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BadObjectStatus {
    /// Its kind.
    pub kind: String,
    /// `NAMESPACE/NAME`, or the path of a file.
    pub place: String,
    /// What is wrong with it.
    pub fault: String,
}

/// One block of a DNS server, known by the name that it is probed for (`--flush-name`).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsBlockStatus {
    /// The server's address.
    pub server: String,
    /// The name.
    pub name: String,
    /// `flushed`: its stream comes here, and is flushed from here where it does not flow by itself. `standby`: another
    /// collector does that. `trying`, `searching`: it was not heard yet. `blind`: it was not heard for 30 s. `forwards`: it sends
    /// probes on, and gets no more. `resting`: no name is wanted.
    pub state: &'static str,
    /// How many of its streams come to this replica.
    pub streams: usize,
    /// For how many seconds no probe was seen in them.
    pub reported_seconds: Option<u64>,
    /// In how many milliseconds the last one had pushed all out that the server held back.
    pub delay_milliseconds: Option<f64>,
    /// The response code of the last answer to a probe.
    pub rcode: Option<u8>,
}

/// A DNS server whose dnstap streams are refused.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedDnsServerStatus {
    /// Its address.
    pub server: String,
    /// Why: `host_network`, it has the address of a Node and streams without TLS or secret.
    pub reason: &'static str,
    /// What it means, and what to do about it.
    pub words: &'static str,
}

/// The Corefile in the cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CorefileStatus {
    /// The ConfigMap, `NAMESPACE/NAME`.
    pub config_map: String,
    /// Why nothing is known of it, if so.
    pub unknown: Option<String>,
    /// What is to be known of it, at most 100 findings.
    pub findings: Vec<FindingStatus>,
}

/// Something to know of a Corefile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingStatus {
    /// The line, from 1.
    pub line: usize,
    /// Answers are not seen because of it; otherwise it is a warning.
    pub is_fault: bool,
    /// What it is.
    pub words: String,
}

/// A peer that is connected.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerStatus {
    /// Its address, or its process.
    pub peer: String,
    /// Whether it may speak. What an unknown peer says waits until it is known.
    pub known: bool,
    /// How many connections it has.
    pub connections: usize,
    /// Data frames that were read of it since it came.
    pub frames: u64,
    /// Observations of it that were dropped.
    pub lost: u64,
    /// How old its last answer for a wanted name was when it was read, by the two clocks.
    pub lag_milliseconds: Option<f64>,
}

/// Observations that were dropped; they are looked up again.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DropsStatus {
    /// The queue was full (`--observation-queue`).
    pub queue: u64,
    /// The part of it was full that one peer may fill.
    pub peer_share: u64,
    /// Too many waited for a peer to become known.
    pub unknown_peer: u64,
}

/// Pods that bypass the cluster's DNS, in namespaces with rules by name.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsStatus {
    /// How many ask other name servers than the cluster's, by whose they are: `node`, `foreign`, or `trusted`, which are asked here too.
    pub name_servers: BTreeMap<&'static str, usize>,
    /// They, at most 1,000.
    pub pods: Vec<PodStatus>,
}

/// A pod that bypasses the cluster's DNS.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// Whose the worst of its name servers is.
    pub whose: &'static str,
    /// Its name servers.
    pub name_servers: Vec<String>,
}

/// One kind of fault of an EgressFirewall.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    /// `NAMESPACE/NAME`.
    pub egress_firewall: String,
    /// The reason of its Event.
    pub reason: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// How many rules, names or annotations it is about.
    pub count: usize,
    /// At most 100 of them.
    pub subjects: Vec<String>,
}

/// What went because a limit was reached.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// Addresses.
    pub addresses: u64,
    /// Names under a wildcard.
    pub names: u64,
}

/// A name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// Its objects, `NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// It stands in an Allow rule.
    pub allowed: bool,
    /// It stands in a Deny rule.
    pub denied: bool,
    /// It is kept although no EgressFirewall has it any more, until that is believed.
    pub held: bool,
    /// It is left out, as the namespaces that use it have too much.
    pub left_out: bool,
    /// It stands in a Deny rule, and its object had no room for all addresses: those that came last were left out, and are open.
    pub full: bool,
    /// How many names have addresses: more than one only for a wildcard.
    pub names: usize,
    /// How many addresses are known.
    pub addresses: usize,
    /// When it, or the first of the names found under it, is looked up next, as RFC 3339 has it.
    pub next_lookup: Option<String>,
    /// In how many seconds that is.
    pub next_lookup_seconds: Option<u64>,
    /// Look-ups of the name itself in a row that gave no address.
    pub fruitless_lookups: u32,
    /// How many of its names cannot be looked up.
    pub failing: usize,
    /// At most ten of them.
    pub failures: Vec<FailureStatus>,
    /// What went because a limit was reached.
    pub evictions: EvictionStatus,
    /// Writes of its object that failed since the last that worked.
    pub failed_writes: u32,
}

/// A name that cannot be looked up.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// The name.
    pub name: String,
    /// How many look-ups failed since the last answer.
    pub failures: i32,
    /// The reason of the condition `Degraded`; `null` if that was not seen by this process.
    pub degraded: Option<String>,
}

impl Status {
    pub(super) fn new(view: View, overview: &Overview) -> Self {
        let at = view.at;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            at: time(at),
            leader: view.leader,
            conditions: Vec::new(),
            egress_firewalls: overview.egress_firewalls,
            faults: faults(overview),
            unknown_egress_firewalls: overview
                .undecodable
                .iter()
                .map(ToString::to_string)
                .collect(),
            bad_objects: Vec::new(),
            dns_blocks: Vec::new(),
            refused_dns_servers: Vec::new(),
            corefiles: Vec::new(),
            pods: None,
            peers: Vec::new(),
            drops: DropsStatus::default(),
            lookups: view.lookups,
            evictions: view.evictions.into(),
            namespaces_over_limit: view
                .namespaces
                .into_iter()
                .take(namespaces::MOST)
                .map(NamespaceStatus::from)
                .collect(),
            names: view
                .names
                .into_iter()
                .map(|name| of_name(name, at))
                .collect(),
        }
    }

    pub(super) fn conditions(&mut self, conditions: Vec<Condition>) {
        let conditions = conditions.into_iter();
        self.conditions = conditions
            .map(|condition| ConditionStatus {
                name: condition.name,
                holds: condition.holds,
                reason: condition.reason,
            })
            .collect();
    }

    pub(super) fn peers(&mut self, peers: Vec<PeerView>, drops: Drops) {
        let status = |peer: PeerView| PeerStatus {
            peer: peer.peer,
            known: peer.is_known,
            connections: peer.connections,
            frames: peer.frames,
            lost: peer.lost,
            lag_milliseconds: peer.lag.map(|lag| lag.as_secs_f64() * 1e3),
        };
        self.peers = peers.into_iter().map(status).collect();
        let Drops {
            queue,
            share,
            unknown,
        } = drops;
        self.drops = DropsStatus {
            queue,
            peer_share: share,
            unknown_peer: unknown,
        };
    }

    pub(super) fn bad_objects(&mut self, bad: Vec<BadObject>) {
        let status = |BadObject { kind, place, fault }| BadObjectStatus { kind, place, fault };
        self.bad_objects = bad.into_iter().map(status).collect();
    }

    pub(super) fn corefile(&mut self, view: Option<&LiveView>) {
        let Some(view) = view else { return };
        let (unknown, found) = match &view.state {
            State::Unknown => (Some("it was not read yet".to_owned()), &[][..]),
            State::Unreadable(reason) => (Some(reason.clone()), &[][..]),
            State::Absent => return,
            State::Read(found) => (None, found.as_slice()),
        };
        self.corefiles.push(CorefileStatus {
            config_map: view.config_map.to_string(),
            unknown,
            findings: found.iter().map(FindingStatus::of).collect(),
        });
    }

    pub(super) fn pods(&mut self, view: Option<&PodsView>) {
        let status = |pod: &PodView| PodStatus {
            pod: pod.pod.to_string(),
            whose: pod.whose.as_str(),
            name_servers: pod.servers.clone(),
        };
        self.pods = view.map(|view| PodsStatus {
            name_servers: view
                .counts
                .iter()
                .map(|(it, n)| (it.as_str(), *n))
                .collect(),
            pods: view.pods.iter().map(status).collect(),
        });
    }

    pub(super) fn refused_dns_servers(&mut self, refused: Vec<IpAddr>) {
        let status = |address: IpAddr| RefusedDnsServerStatus {
            server: address.to_string(),
            reason: "host_network",
            words: ADVICE,
        };
        self.refused_dns_servers = refused.into_iter().map(status).collect();
    }

    pub(super) fn dns_blocks(&mut self, blocks: &[BlockView]) {
        let status = |block: &BlockView| DnsBlockStatus {
            server: block.server.to_string(),
            name: block.name.clone(),
            state: block.state.as_str(),
            streams: block.streams,
            reported_seconds: block.reported.map(|ago| ago.as_secs()),
            delay_milliseconds: block.delay.map(|delay| delay.as_secs_f64() * 1e3),
            rcode: block.rcode,
        };
        self.dns_blocks = blocks.iter().map(status).collect();
    }
}

impl FindingStatus {
    fn of(finding: &Finding) -> Self {
        Self {
            line: finding.line,
            is_fault: finding.is_fault,
            words: finding.words.clone(),
        }
    }
}

impl NameStatus {
    /// Whether somebody should look at it.
    pub(super) fn is_troubled(&self) -> bool {
        let lost = self.evictions.addresses + self.evictions.names > 0;
        self.failing > 0
            || self.addresses == 0
            || self.objects.len() != 1
            || lost
            || self.failed_writes > 0
            || self.held
            || self.left_out
    }
}

impl From<Evictions> for EvictionStatus {
    fn from(Evictions { addresses, names }: Evictions) -> Self {
        Self { addresses, names }
    }
}

fn faults(overview: &Overview) -> Vec<FaultStatus> {
    let all = overview.faults.iter();
    let all = all.flat_map(|(key, faults)| faults.iter().map(move |found| (key, found)));
    all.map(|(key, (fault, subjects))| FaultStatus {
        egress_firewall: key.to_string(),
        reason: fault.reason(),
        meaning: fault.meaning(),
        count: subjects.count,
        subjects: subjects.kept.iter().cloned().collect(),
    })
    .collect()
}

fn of_name(view: NameView, now: Timestamp) -> NameStatus {
    let failure = |failing: FailureView| FailureStatus {
        name: failing.name.to_string(),
        failures: failing.failures,
        degraded: failing.failure.map(|failure| failure.reason().into_owned()),
    };
    NameStatus {
        name: view.name.to_string(),
        objects: view.objects.iter().map(ToString::to_string).collect(),
        allowed: view.allowed,
        denied: view.denied,
        held: view.held,
        left_out: view.left_out,
        full: view.denied && view.evictions.addresses > 0,
        names: view.names,
        addresses: view.addresses,
        next_lookup: view.next_lookup.map(time),
        next_lookup_seconds: view.next_lookup.map(|next| next.since(now).as_secs()),
        fruitless_lookups: view.fruitless_lookups,
        failing: view.failing,
        failures: view.failures.into_iter().map(failure).collect(),
        evictions: view.evictions.into(),
        failed_writes: view.failed_writes,
    }
}

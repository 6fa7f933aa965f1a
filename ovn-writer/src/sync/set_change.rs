//! Changes of sets that took effect, for `/watch`.

use std::{net::IpAddr, time::Instant};

use proto::api::{DnsName, Family, address_set_id, address_set_name};

use super::{batch::Planned, change::Change, change_log::Cause};
use crate::references::NorthboundReplica;

/// The most addresses of an event; the others are counted.
const MOST: usize = 1_000;

/// A change of a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetChange {
    pub name: DnsName,
    /// `name` of the row.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    pub family: Family,
    pub cause: Cause,
    /// Added addresses, at most 1,000.
    pub added: Vec<IpAddr>,
    /// The number of others.
    pub more_added: usize,
    /// Removed members, as they were written, at most 1,000.
    pub removed: Vec<String>,
    /// The number of others.
    pub more_removed: usize,
    /// When the event of the object was handled; `None` if no such event led to the change.
    pub seen: Option<Instant>,
    /// When the database's acknowledgement was read.
    pub acknowledged: Instant,
}

impl SetChange {
    /// The changes of a name in a finished transaction. A row that the replica no longer has is without a name.
    pub(super) fn all<'a>(
        planned: &'a Planned,
        replica: &'a NorthboundReplica,
        now: Instant,
    ) -> impl Iterator<Item = Self> + 'a {
        let since = planned.mark.since;
        planned.findings.iter().map(move |finding| {
            let change = &finding.change;
            let (set, controller) = identity(&planned.name, change, replica);
            let (mut added, mut removed): (&[IpAddr], &[_]) = (&[], &[]);
            let mut more_removed = 0;
            match change {
                Change::Create { addresses, .. } => added = addresses,
                Change::Mutate { insert, delete, .. } => (added, removed) = (insert, delete),
                Change::Delete { members, .. } => more_removed = *members,
            }
            Self {
                name: planned.name.clone(),
                set,
                controller,
                family: change.family(),
                cause: Cause::of(finding.trigger, since),
                added: added.iter().take(MOST).copied().collect(),
                more_added: added.len().saturating_sub(MOST),
                removed: removed.iter().take(MOST).map(ToString::to_string).collect(),
                more_removed: more_removed + removed.len().saturating_sub(MOST),
                seen: since.map(|since| since.at),
                acknowledged: now,
            }
        })
    }
}

/// The name of the row and its controller.
fn identity(name: &DnsName, change: &Change, replica: &NorthboundReplica) -> (String, String) {
    match change {
        Change::Create { set, .. } => {
            let id = address_set_id(&set.controller, name.as_str(), set.family);
            (address_set_name(&id), set.controller.to_string())
        }
        Change::Mutate { uuid, .. } | Change::Delete { uuid, .. } => {
            let row = replica.0.get(*uuid);
            row.map_or_else(Default::default, |row| {
                let controller = row.controller().unwrap_or_default();
                (row.name().to_owned(), controller.to_owned())
            })
        }
    }
}

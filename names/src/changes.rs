//! What changed in the table of names, for the task that owns it.

use std::collections::{BTreeMap, BTreeSet};

use proto::{api::DnsName, timestamp::Timestamp};

use crate::Namespace;

/// The changes since they were taken last.
#[derive(Debug, Default)]
pub struct Changes {
    /// Names whose status may differ from the stored one, with the time of the first answer that the status lacks.
    pub dirty: BTreeMap<DnsName, Option<Timestamp>>,
    /// Names that came into the table (`true`) or left it.
    pub indexed: BTreeMap<DnsName, bool>,
    /// Names that need the addresses that pods use already: see [`Names::share`](crate::Names::share).
    pub new: BTreeSet<DnsName>,
    /// Names with evictions.
    pub evicted: BTreeSet<DnsName>,
    /// Namespaces that reached a cap.
    pub at_cap: BTreeSet<Namespace>,
    /// Numbers for metrics.
    pub counts: Counts,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Addresses that left since their time was over.
    pub expired: u64,
    /// Addresses that left since their retention alone kept too many.
    pub retained_dropped: u64,
    /// Addresses that left since something was full.
    pub evicted_addresses: u64,
    /// Names under a wildcard that left since it was full.
    pub evicted_names: u64,
    /// New addresses that did not get in, since their namespaces have too many.
    pub left_out: u64,
    /// Names looked up again since an answer was lost.
    pub asked_after_loss: u64,
    /// Names that should be, while too many waited.
    pub losses_dropped: u64,
    /// Names looked up again since a stream had a gap.
    pub backfilled: u64,
    /// Gaps while rules had wildcards.
    pub wildcard_gaps: u64,
}

impl Changes {
    pub(crate) fn mark(&mut self, name: &DnsName, unwritten_since: Option<Timestamp>) {
        let since = self.dirty.entry(name.clone()).or_default();
        *since = since.or(unwritten_since);
    }
}

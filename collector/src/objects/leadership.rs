//! Whether this collector leads, and whether clients of some DNS server are not seen.

use runtime::clock::Timestamp;
use tracing::info;

use super::names::NameTable;
use crate::stream_coverage::StreamCoverage;

/// The lead, and the DNS servers that stream here.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// Whether this collector looks names up, removes addresses, writes statuses, and creates and
    /// deletes objects.
    leads: bool,
    /// A listed DNS server does not stream here.
    is_server_missing: bool,
    /// The last time when all names were marked as in use because a DNS server was missing.
    not_idle_at: Timestamp,
}

impl Leadership {
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Sets whether this collector leads. Returns whether that changed.
    pub(crate) fn set(&mut self, leads: bool) -> bool {
        if leads == self.leads {
            return false;
        }
        info!(leader = leads, "leadership");
        self.leads = leads;
        true
    }

    /// Sets which DNS servers stream here.
    pub(crate) fn set_coverage(
        &mut self,
        coverage: StreamCoverage,
        names: &mut NameTable,
        now: Timestamp,
    ) {
        if std::mem::replace(&mut self.is_server_missing, coverage.is_missing)
            != coverage.is_missing
        {
            self.not_idle(names, now);
        }
    }

    /// While a DNS server does not stream, its clients may use any name.
    pub(crate) fn tick(&mut self, names: &mut NameTable, now: Timestamp) {
        let is_due = self.not_idle_at + names.limits.wildcard_idle / 8 <= now;
        if self.is_server_missing && is_due {
            self.not_idle(names, now);
        }
    }

    fn not_idle(&mut self, names: &mut NameTable, now: Timestamp) {
        self.not_idle_at = now;
        names.not_idle(now);
    }

    /// The clock was set.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.not_idle_at = self.not_idle_at.min(now);
    }
}

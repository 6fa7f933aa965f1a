//! The writer without writes: it prints what `egress verify` prints, at the start and whenever that changes.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use proto::{api::DnsName, facts::Comparison};

use crate::plan::Plan;

/// The text to print, and what was printed before.
pub struct DryRun {
    output: Box<dyn Write + Send>,
    last: String,
    /// Whether this session already checked for ovn-kubernetes.
    is_probed: bool,
    /// When the names of all sets were requested in this session.
    names_asked: Option<Instant>,
}

/// The maximum age of the known set names when a missing set is reported. The server reads all rows for them.
const MAX_AGE: Duration = Duration::from_secs(10);

impl DryRun {
    /// Writes to `output`.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self {
            output: Box::new(output),
            last: String::new(),
            is_probed: false,
            names_asked: None,
        }
    }

    pub(crate) fn begin(&mut self) {
        self.is_probed = false;
        self.names_asked = None;
    }

    /// Whether this session already checked for ovn-kubernetes; marks it as checked.
    pub(crate) fn is_probed(&mut self) -> bool {
        std::mem::replace(&mut self.is_probed, true)
    }

    /// Whether the names of all sets must be read before this report, since others may have the names of missing sets.
    /// If so, marks them as requested now.
    pub(crate) fn must_ask(&mut self, plans: &[(DnsName, Plan)], now: Instant) -> bool {
        let is_known = |asked: Instant| now.saturating_duration_since(asked) < MAX_AGE;
        let mut findings = plans.iter().flat_map(|(_, plan)| &plan.findings);
        let must = !self.names_asked.is_some_and(is_known)
            && findings.any(|finding| finding.change.is_creation());
        if must {
            self.names_asked = Some(now);
        }
        must
    }

    /// Prints the comparison if it changed.
    pub(crate) fn print(&mut self, comparison: &Comparison) -> io::Result<()> {
        let text = comparison.to_string();
        if text == self.last {
            return Ok(());
        }
        writeln!(self.output, "{text}")?;
        self.last = text;
        self.output.flush()
    }
}

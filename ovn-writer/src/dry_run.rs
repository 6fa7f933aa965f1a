//! The writer without writes: it reports what it would do.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use foldhash::HashMap;
use proto::api::DnsName;

use crate::{
    references::{NorthboundReplica, References},
    report::{Format, NameReport},
    sync::{Change, Plan},
};

/// Writes the planned changes, name by name, and again whenever they change.
pub struct DryRun {
    output: Box<dyn Write + Send>,
    format: Format,
    /// The last reported changes of names that differ, each with whether another client has the name of the set.
    said: HashMap<DnsName, Vec<(Change, bool)>>,
    /// Whether this session already checked for ovn-kubernetes.
    is_probed: bool,
    /// When the names of all sets were requested in this session.
    names_asked: Option<Instant>,
}

/// The maximum age of the known set names when a missing set is reported. The server reads all rows for them.
const MAX_AGE: Duration = Duration::from_secs(10);

impl DryRun {
    /// Writes to `output` in this format.
    pub fn new(output: impl Write + Send + 'static, format: Format) -> Self {
        Self {
            output: Box::new(output),
            format,
            said: HashMap::default(),
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

    /// Writes the new differences.
    pub(crate) fn say(
        &mut self,
        plans: Vec<(DnsName, Plan)>,
        replica: &NorthboundReplica,
        references: &References,
        now: Instant,
    ) -> io::Result<()> {
        for (name, plan) in plans {
            let findings = plan.findings.iter();
            let changes = findings.map(|finding| (finding.change.clone(), finding.is_conflict));
            let changes: Vec<_> = changes.collect();
            let said = self.said.get(&name).map_or(&[][..], Vec::as_slice);
            if said == changes {
                continue;
            }
            let report = NameReport::of(&name, &plan, replica, references, now);
            match self.format {
                Format::Text => writeln!(self.output, "{report}")?,
                Format::Json => {
                    serde_json::to_writer(&mut self.output, &report)?;
                    writeln!(self.output)?;
                }
            }
            if changes.is_empty() {
                self.said.remove(&name);
            } else {
                self.said.insert(name, changes);
            }
        }
        self.output.flush()
    }
}

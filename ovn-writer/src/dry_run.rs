//! The writer with its hands tied: it says what it would do.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::Instant,
};

use proto::api::DnsName;

use crate::{
    references::{NorthboundReplica, References},
    report::{Format, NameReport},
    sync::{Change, Plan},
};

/// Writes what would be done, name by name, and again whenever that is something else.
pub struct DryRun {
    output: Box<dyn Write + Send>,
    format: Format,
    /// What was written last of the names that differ.
    said: HashMap<DnsName, Vec<Change>>,
    /// Whether it was asked in this session who manages the database.
    is_probed: bool,
}

impl DryRun {
    /// Writes to `output` in this format.
    pub fn new(output: impl Write + Send + 'static, format: Format) -> Self {
        Self {
            output: Box::new(output),
            format,
            said: HashMap::new(),
            is_probed: false,
        }
    }

    /// A session began.
    pub(crate) fn begin(&mut self) {
        self.is_probed = false;
    }

    /// Whether it was asked in this session who manages the database; it is now.
    pub(crate) fn is_probed(&mut self) -> bool {
        std::mem::replace(&mut self.is_probed, true)
    }

    /// Writes what is new.
    pub(crate) fn say(
        &mut self,
        plans: Vec<(DnsName, Plan)>,
        replica: &NorthboundReplica,
        references: &References,
        now: Instant,
    ) -> io::Result<()> {
        for (name, plan) in plans {
            let changes = plan.findings.iter().map(|finding| finding.change.clone());
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

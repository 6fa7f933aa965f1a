//! Decides which differences of a name are changed now, and which wait.

use std::time::Instant;

use proto::api::{DnsName, Family};

use super::{
    Plan, Reconciler,
    change::ChangesText,
    drift_backoff::{self, DriftBackoff},
    queue::QueueReason,
    set_plan::{Finding, Trigger, Verdict},
};

impl Reconciler {
    /// The differences of a name that are changed now.
    pub(super) fn admit(
        &mut self,
        name: &DnsName,
        mark: QueueReason,
        plan: Plan,
        now: Instant,
    ) -> Vec<Finding> {
        let findings = plan.findings.into_iter();
        let due = findings.filter(|finding| finding.verdict == Verdict::Now);
        let mut findings: Vec<_> = due.collect();
        // A deletion follows in a transaction of its own.
        if findings.iter().any(|it| !it.change.is_deletion()) {
            findings.retain(|it| !it.change.is_deletion());
        }
        let is_quiet = |of: &[DriftBackoff; 2]| of.iter().all(|one| one.is_quiet(now));
        if self.drift_backoff.get(name).is_some_and(is_quiet) {
            self.drift_backoff.remove(name);
        }
        if findings.is_empty() {
            self.refused.remove(name);
            return findings;
        }
        if let Some(until) = self.admit_repairs(name, &mut findings, now) {
            self.queue.defer(name.clone(), mark, until);
        }
        // A retry of a known name conflict is no repair.
        let is_repair = |it: &&Finding| it.trigger == Trigger::ForeignChange && !it.is_conflict;
        let repairs: Vec<_> = findings.iter().filter(is_repair).cloned().collect();
        if !repairs.is_empty() {
            self.queue.look_at(name.clone(), now + drift_backoff::QUIET);
            if let Some(left_out) = self.repair_log.allow() {
                tracing::warn!(%name, changes = %ChangesText(&repairs), suppressed_lines = left_out, "the address sets of a name were changed by another client: the ovn-writer undoes that");
            }
        }
        findings
    }

    /// Removes the repairs that must wait, and returns until when.
    fn admit_repairs(
        &mut self,
        name: &DnsName,
        findings: &mut Vec<Finding>,
        now: Instant,
    ) -> Option<Instant> {
        let is_repair = |finding: &Finding, family| {
            finding.trigger == Trigger::ForeignChange && finding.change.family() == family
        };
        let mut until = None::<Instant>;
        for (place, family) in Family::ALL.into_iter().enumerate() {
            let mut repairs = findings.iter().filter(|it| is_repair(it, family));
            let longest = if repairs.clone().any(|it| it.change.is_creation()) {
                drift_backoff::LONGEST_WAIT_FOR_SET
            } else {
                drift_backoff::LONGEST_WAIT
            };
            if repairs.next().is_none() {
                continue;
            }
            let backoff = self.drift_backoff.entry(name.clone()).or_default();
            let admitted = backoff.get_mut(place).map(|it| it.admit(now, longest));
            if let Some(Err(at)) = admitted {
                findings.retain(|finding| !is_repair(finding, family));
                until = Some(until.map_or(at, |until| until.min(at)));
            }
        }
        until
    }
}

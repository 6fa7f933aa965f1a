//! Reports that wait until the reporter takes them.

use std::{collections::BTreeMap, iter::empty};

use runtime::kube_events::{PendingReports, Reporter};
use tokio::time::Instant;

use crate::planner::PlannedReport;

/// The namespace and the name of a `DNSResolver`, and the reason.
type Id = (Option<String>, Option<String>, &'static str);

/// The newest report of each `DNSResolver` and reason. So none pushes out those of others.
#[derive(Debug, Default)]
pub struct UnsentReports {
    reports: BTreeMap<Id, PlannedReport>,
    pending: PendingReports<Id>,
}

impl UnsentReports {
    /// Adds reports.
    pub fn extend(&mut self, reports: impl IntoIterator<Item = PlannedReport>) {
        for report in reports {
            let about = &report.about;
            let id = (about.namespace.clone(), about.name.clone(), report.reason);
            self.pending.extend([id.clone()]);
            self.reports.insert(id, report);
        }
    }

    /// When to send next; `None` if nothing waits.
    pub fn due(&self) -> Option<Instant> {
        (!self.reports.is_empty()).then(|| self.pending.due())
    }

    /// Gives the reporter what it takes. The rest waits for a second.
    pub fn send(&mut self, reporter: &Reporter) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let reports = &mut self.reports;
        self.pending.report(empty, |id| {
            let is_taken = reports.get(id).is_none_or(|it| {
                let about = it.about.clone();
                reporter.report(about, it.severity, it.reason, it.note.clone())
            });
            if is_taken {
                reports.remove(id);
            }
            is_taken
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use runtime::kube_events::Severity;

    use super::*;

    fn report(namespace: &str, name: &str, note: &str) -> PlannedReport {
        PlannedReport {
            about: ObjectReference {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            severity: Severity::Warning,
            reason: "LimitExceeded",
            note: note.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_reports_of_one_namespace_push_out_no_other() {
        let (reporter, mut taken) = Reporter::with_queue(4);
        let mut unsent = UnsentReports::default();
        unsent.extend((0..3_000).map(|i| report("loud", &format!("n{i}"), "")));
        unsent.extend([report("quiet", "a", "old"), report("quiet", "a", "new")]);
        unsent.send(&reporter);
        let all = std::iter::from_fn(|| taken.try_next());
        let of_quiet = all.filter(|it| it.about.namespace.as_deref() == Some("quiet"));
        let notes: Vec<_> = of_quiet.map(|it| it.note).collect();
        assert_eq!(notes, ["new"]);
        // The others are sent later.
        let due = unsent.due().unwrap();
        assert!(due > Instant::now());
        tokio::time::advance(due - Instant::now()).await;
        unsent.send(&reporter);
        assert!(taken.try_next().is_some());
    }
}

//! Kubernetes Events on users' objects, beside the log.
//!
//! An object has one Event for each reason, which is written anew when its note changes. kube's `Recorder` does not fit: it
//! hides a second note with the same reason. A write that fails costs only this Event.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams},
};
use metrics::counter;
use parking_lot::Mutex;
use rapidhash::v3::rapidhash_v3;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    OpenStore,
    cluster::{Cluster, answer},
    metrics::Label,
};

/// The pause after each batch of Events.
const INTERVAL: Duration = Duration::from_secs(5);

/// The most Events of an object in a batch, which makes 24 a minute. Further ones wait.
const BATCH: u32 = 2;

/// All notes are written again after this time, since the API server deletes an Event after an hour.
const REPEAT_AFTER: Duration = Duration::from_secs(30 * 60);

/// The longest note of an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// The longest part of an Event's name that comes from its object.
const MAX_NAME: usize = 236;

crate::metrics! {
    /// The metrics of reports.
    pub const METRICS;

    counter REPORTS = "egress_reports_total" [Label::one_of("outcome", &["raised", "logged", "repeated", "failed"])]
        "Reports about objects. `raised`: an Event was written. `logged`: there is no cluster, so only the log has it. `repeated`: the Event has this note already. `failed`: the API server did not take it";
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// Information.
    Normal,
    /// An administrator or author should act.
    Warning,
}

/// Takes reports and never blocks. Clones share the waiting ones.
#[derive(Clone, Debug, Default)]
pub struct Reporter(Arc<Waiting>);

/// An object and a reason.
type Key = (String, &'static str);

#[derive(Debug, Default)]
struct Waiting {
    reports: Mutex<BTreeMap<Key, Report>>,
    added: Notify,
}

/// A report to a [`Reporter`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The object.
    pub about: ObjectReference,
    /// Its type.
    pub severity: Severity,
    /// One word in `UpperCamelCase`.
    pub reason: &'static str,
    /// At most 1,024 bytes.
    pub note: String,
}

/// Writes the reports of a [`Reporter`].
pub struct Reporting {
    reporter: Reporter,
    cluster: Option<Cluster>,
    /// The hashes of the last notes since a time.
    written: (Instant, HashMap<Key, u64>),
}

impl Reporter {
    /// Reports to the log and, in a cluster, to Events. Nothing is written unless the second part runs.
    pub fn new(store: &OpenStore) -> (Self, Reporting) {
        let reporter = Self::default();
        let reporting = Reporting {
            reporter: reporter.clone(),
            cluster: match store {
                OpenStore::Dir(_) => None,
                OpenStore::Kube(store) => Some(store.cluster().clone()),
            },
            written: (Instant::now(), HashMap::new()),
        };
        (reporter, reporting)
    }

    /// Reports about an object, given by its `object_ref`. `reason` is one word in `UpperCamelCase`; the note is cut after
    /// 1,024 bytes. It takes the place of a waiting note about the same object with the same reason.
    pub fn report(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        note: impl Into<String>,
    ) {
        let mut note = note.into();
        note.truncate(note.floor_char_boundary(MAX_NOTE));
        let report = Report {
            about,
            severity,
            reason,
            note,
        };
        self.0.reports.lock().insert(report.key(), report);
        self.0.added.notify_one();
    }

    /// Takes the next batch of reports, in order of their objects and reasons.
    pub fn take(&self) -> Vec<Report> {
        let mut reports = self.0.reports.lock();
        let (mut last, mut count) = (String::new(), 0);
        let is_in_batch = |(object, _): &Key, _: &mut Report| {
            if *object != last {
                (last, count) = (object.clone(), 0);
            }
            count += 1;
            count <= BATCH
        };
        let batch = reports.extract_if(.., is_in_batch);
        let batch = batch.map(|(_, report)| report).collect();
        if !reports.is_empty() {
            self.0.added.notify_one();
        }
        batch
    }
}

impl Reporting {
    /// Writes the reports until the token is cancelled.
    ///
    /// # Errors
    /// None: an Event that cannot be written is counted.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let all = async {
            loop {
                self.reporter.0.added.notified().await;
                for report in self.reporter.take() {
                    let outcome = self.write(&report).await;
                    counter!(REPORTS, "outcome" => outcome).increment(1);
                }
                sleep(INTERVAL).await;
            }
        };
        token.run_until_cancelled(all).await;
        Ok(())
    }

    /// Logs a report and writes its Event. Returns the outcome.
    async fn write(&mut self, report: &Report) -> &'static str {
        if !self.is_new(report, Instant::now()) {
            return "repeated";
        }
        report.log();
        let Some(cluster) = &self.cluster else {
            return "logged";
        };
        // Only `v1` allows another note: in `events.k8s.io/v1` it is immutable.
        let event = report.event(cluster.manager());
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(cluster.client(), namespace);
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let params = PatchParams::apply(cluster.manager()).force();
        match answer(api.patch(name, &params, &Patch::Apply(&event))).await {
            Ok(_) => "raised",
            Err(error) => {
                debug!(reason = report.reason, "cannot write an Event: {error}");
                self.written.1.remove(&report.key());
                "failed"
            }
        }
    }

    fn is_new(&mut self, report: &Report, now: Instant) -> bool {
        let (since, notes) = &mut self.written;
        if now >= *since + REPEAT_AFTER {
            *since = now;
            notes.clear();
        }
        let note = rapidhash_v3(report.note.as_bytes());
        notes.insert(report.key(), note) != Some(note)
    }
}

impl Report {
    /// The object and the reason. An object that was made anew under the same name is another one.
    fn key(&self) -> Key {
        let about = &self.about;
        let parts = [&about.kind, &about.namespace, &about.name, &about.uid];
        let object = parts.map(|part| part.as_deref().unwrap_or("")).join("/");
        (object, self.reason)
    }

    fn log(&self) {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let kind = text(&self.about.kind);
        let object = format!("{}/{}", text(&self.about.namespace), text(&self.about.name));
        match self.severity {
            Severity::Normal => info!(kind, object, reason = self.reason, "{}", self.note),
            Severity::Warning => warn!(kind, object, reason = self.reason, "{}", self.note),
        }
    }

    /// The Event. Its name is the same for each note, so another replica or a restart writes the same one.
    fn event(&self, manager: &str) -> Event {
        let mut name = self.about.name.clone().unwrap_or_default();
        name.truncate(name.floor_char_boundary(MAX_NAME));
        let (object, reason) = self.key();
        let id = rapidhash_v3(format!("{object}/{reason}").as_bytes());
        let namespace = self.about.namespace.as_deref().unwrap_or("default");
        let now = Some(Time(Timestamp::now()));
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{id:016x}", name.trim_end_matches(['.', '-']))),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(format!("{:?}", self.severity)),
            reason: Some(self.reason.to_owned()),
            message: Some(self.note.clone()),
            involved_object: self.about.clone(),
            source: Some(EventSource {
                component: Some(manager.to_owned()),
                host: None,
            }),
            reporting_component: Some(manager.to_owned()),
            first_timestamp: now.clone(),
            last_timestamp: now,
            count: Some(1),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(object: &str, reason: &'static str, note: &str) -> Report {
        Report {
            about: ObjectReference {
                name: Some(object.to_owned()),
                uid: Some("1".to_owned()),
                ..ObjectReference::default()
            },
            severity: Severity::Warning,
            reason,
            note: note.to_owned(),
        }
    }

    #[test]
    fn report_with_same_note_is_written_again_after_half_an_hour() {
        let now = Instant::now();
        let mut reporting = Reporting {
            reporter: Reporter::default(),
            cluster: None,
            written: (now, HashMap::new()),
        };
        let (first, second) = (report("a", "Test", "1"), report("a", "Test", "2"));
        assert!(reporting.is_new(&first, now));
        assert!(!reporting.is_new(&first, now));
        assert!(reporting.is_new(&report("a", "Other", "1"), now));
        assert!(reporting.is_new(&second, now));
        assert!(!reporting.is_new(&second, now));
        assert!(reporting.is_new(&second, now + REPEAT_AFTER));
        let events = [&first, &second].map(|it| it.event("tests"));
        assert_eq!(events[0].metadata, events[1].metadata);
    }

    #[test]
    fn object_has_two_events_in_a_batch_and_others_wait() {
        let reporter = Reporter::default();
        for reason in ["A", "B", "C"] {
            for object in ["a", "b"] {
                let about = report(object, reason, "").about;
                reporter.report(about, Severity::Normal, reason, "1");
            }
        }
        let batch = || {
            let reports = reporter.take().into_iter();
            let key = |it: Report| format!("{} {}", it.about.name.unwrap(), it.reason);
            reports.map(key).collect::<Vec<_>>()
        };
        assert_eq!(batch(), ["a A", "a B", "b A", "b B"]);
        assert_eq!(batch(), ["a C", "b C"]);
        assert_eq!(batch(), [""; 0]);
    }

    #[test]
    fn last_note_of_an_object_and_reason_waits_and_is_cut() {
        let reporter = Reporter::default();
        for note in ["1".to_owned(), "ü".repeat(MAX_NOTE)] {
            let about = report("a", "Test", "").about;
            reporter.report(about, Severity::Normal, "Test", note);
        }
        let waiting = reporter.take();
        assert_eq!(waiting.len(), 1);
        assert!(waiting.iter().all(|it| it.note.len() == MAX_NOTE));
    }
}

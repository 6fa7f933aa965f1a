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

/// The most Events that wait. Beyond it a report about another object or reason is dropped.
const MAX_WAITING: usize = 4096;

/// An Event is written at most once in this time, with the last note.
const INTERVAL: Duration = Duration::from_secs(5);

/// The same note is written again after this time, since the API server deletes an Event after an hour.
const REPEAT_AFTER: Duration = Duration::from_secs(30 * 60);

/// The most Events of an object in a minute.
const MAX_A_MINUTE: u32 = 25;

/// The most remembered notes. When there are more, all are forgotten, and an Event may be written once more.
const MAX_WRITTEN: usize = 16_384;

/// The longest note of an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// The longest part of an Event's name that comes from its object.
const MAX_NAME: usize = 236;

crate::metrics! {
    /// The metrics of reports.
    pub const METRICS;

    counter REPORTS = "egress_reports_total" [Label::one_of("outcome", &["raised", "logged", "repeated", "failed", "dropped"])]
        "Reports about objects. `raised`: an Event was written. `logged`: there is no cluster, so only the log has it. `repeated`: the Event has this note already. `failed`: the API server did not take it. `dropped`: 4,096 other Events wait, or the object had 25 in this minute";
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

/// The reports that wait, by object and reason.
#[derive(Debug, Default)]
struct Waiting {
    reports: Mutex<BTreeMap<(String, &'static str), Report>>,
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
    /// The hash of the last note by object and reason, and its time.
    written: HashMap<u64, (u64, Instant)>,
    /// The Events of each object since the minute began.
    minute: (Instant, HashMap<String, u32>),
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
            written: HashMap::new(),
            minute: (Instant::now(), HashMap::new()),
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
        let key = (report.object(), reason);
        let mut reports = self.0.reports.lock();
        if reports.len() >= MAX_WAITING && !reports.contains_key(&key) {
            count("dropped");
            return;
        }
        reports.insert(key, report);
        self.0.added.notify_one();
    }

    /// Takes the waiting reports, in order of their objects and reasons.
    pub fn take(&self) -> Vec<Report> {
        std::mem::take(&mut *self.0.reports.lock())
            .into_values()
            .collect()
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
                    count(self.write(&report).await);
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
        if !self.is_admitted(report, Instant::now()) {
            return "dropped";
        }
        report.log();
        let Some(cluster) = &self.cluster else {
            return "logged";
        };
        match write(cluster, report).await {
            Ok(()) => "raised",
            Err(error) => {
                debug!(reason = report.reason, "cannot write an Event: {error}");
                self.written.remove(&report.id());
                "failed"
            }
        }
    }

    /// Counts the Event, and returns whether its object may have one more in this minute.
    fn is_admitted(&mut self, report: &Report, now: Instant) -> bool {
        let (since, counts) = &mut self.minute;
        if now - *since >= Duration::from_secs(60) {
            (*since, *counts) = (now, HashMap::new());
        }
        let count = counts.entry(report.object()).or_default();
        *count += 1;
        *count <= MAX_A_MINUTE
    }

    fn is_new(&mut self, report: &Report, now: Instant) -> bool {
        if self.written.len() >= MAX_WRITTEN {
            self.written.clear();
        }
        let note = hash(&report.note);
        let last = self.written.get(&report.id());
        if last.is_some_and(|(last, at)| *last == note && now < *at + REPEAT_AFTER) {
            return false;
        }
        self.written.insert(report.id(), (note, now));
        true
    }
}

impl Report {
    /// The object. One that was made anew under the same name is another one.
    fn object(&self) -> String {
        let about = &self.about;
        let parts = [&about.kind, &about.namespace, &about.name, &about.uid];
        parts.map(|part| part.as_deref().unwrap_or("")).join("/")
    }

    fn id(&self) -> u64 {
        hash(&format!("{}/{}", self.object(), self.reason))
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
        let id = self.id();
        let namespace = self.about.namespace.as_deref().unwrap_or("default");
        let now = Time(Timestamp::now());
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
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        }
    }
}

/// Makes the Event, or changes its note. Only `v1` allows that: in `events.k8s.io/v1` a note is immutable.
async fn write(cluster: &Cluster, report: &Report) -> kube::Result<()> {
    let event = report.event(cluster.manager());
    let metadata = &event.metadata;
    let api: Api<Event> = Api::namespaced(
        cluster.client(),
        metadata.namespace.as_deref().unwrap_or_default(),
    );
    let name = metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams::apply(cluster.manager()).force();
    answer(api.patch(name, &params, &Patch::Apply(&event)))
        .await
        .map(drop)
}

fn hash(text: &str) -> u64 {
    rapidhash_v3(text.as_bytes())
}

fn count(outcome: &'static str) {
    counter!(REPORTS, "outcome" => outcome).increment(1);
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
        let mut reporting = Reporting {
            reporter: Reporter::default(),
            cluster: None,
            written: HashMap::new(),
            minute: (Instant::now(), HashMap::new()),
        };
        let now = Instant::now();
        let (first, second) = (report("a", "Test", "1"), report("a", "Test", "2"));
        assert!(reporting.is_new(&first, now));
        assert!(!reporting.is_new(&first, now));
        assert!(reporting.is_new(&report("a", "Other", "1"), now));
        assert!(reporting.is_new(&second, now));
        assert!(reporting.is_new(&second, now + REPEAT_AFTER));
        let events = [&first, &second].map(|it| it.event("tests"));
        assert_eq!(events[0].metadata, events[1].metadata);
        for i in 0..2 * MAX_WRITTEN {
            reporting.is_new(&report(&i.to_string(), "Test", "1"), now);
        }
        assert!(reporting.written.len() <= MAX_WRITTEN);
    }

    #[test]
    fn object_has_at_most_25_events_in_a_minute() {
        let now = Instant::now();
        let mut reporting = Reporting {
            reporter: Reporter::default(),
            cluster: None,
            written: HashMap::new(),
            minute: (now, HashMap::new()),
        };
        let mut admitted = |object: &str, at| {
            let report = report(object, "Test", "1");
            (0..100)
                .filter(|_| reporting.is_admitted(&report, at))
                .count()
        };
        assert_eq!(admitted("a", now), 25);
        assert_eq!(admitted("b", now), 25);
        assert_eq!(admitted("a", now + Duration::from_secs(60)), 25);
    }

    #[test]
    fn last_note_of_an_object_and_reason_waits_and_is_cut() {
        let reporter = Reporter::default();
        for note in ["1".to_owned(), "ü".repeat(MAX_NOTE)] {
            for object in 0..2 * MAX_WAITING {
                let about = report(&object.to_string(), "Test", "").about;
                reporter.report(about, Severity::Normal, "Test", note.clone());
            }
        }
        let waiting = reporter.take();
        assert_eq!(waiting.len(), MAX_WAITING);
        assert!(waiting.iter().all(|it| it.note.len() == MAX_NOTE));
        assert_eq!(reporter.take(), []);
    }
}

//! Kubernetes Events on users' objects, beside the log.
//!
//! An object has one Event for each reason, which is written anew when its note changes. kube's `Recorder` does not fit: it
//! hides a second note with the same reason. A write that fails costs only this Event.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::api::{ObjectMeta, Patch, PatchParams};
use metrics::counter;
use rapidhash::v3::rapidhash_v3;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    OpenStore,
    cluster::{ApiError, Cluster},
    metrics::Label,
};

/// How many reports may wait.
const QUEUE: usize = 1024;

/// The most reports of an object in [`MINUTE`].
const MAX_OF_OBJECT: u32 = 25;
const MINUTE: Duration = Duration::from_secs(60);

/// The same note is written again after this time, since the API server deletes an Event after an hour.
const REPEAT_AFTER: Duration = Duration::from_secs(30 * 60);

/// The most remembered objects. When there are more, all are forgotten, and an Event may be written once more.
const MAX_OBJECTS: usize = 4096;

/// The longest note of an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// The longest part of an Event's name that comes from its object.
const MAX_NAME: usize = 236;

crate::metrics! {
    /// The metrics of reports.
    pub const METRICS;

    counter REPORTS = "egress_reports_total" [Label::one_of("outcome", &["raised", "logged", "repeated", "failed", "dropped"])]
        "Reports about objects. `raised`: an Event was written. `logged`: there is no cluster, so only the log has it. `repeated`: the Event has this note already. `failed`: the API server did not take it. `dropped`: the queue was full, or the object had 25 reports within a minute";
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// Information.
    Normal,
    /// An administrator or author should act.
    Warning,
}

/// Takes reports and never blocks. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Reporter(mpsc::Sender<Report>);

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
    reports: mpsc::Receiver<Report>,
    cluster: Option<Cluster>,
    recent: Recent,
}

impl Reporter {
    /// Reports to the log and, in a cluster, to Events. Nothing is written unless the second part runs.
    pub fn new(store: &OpenStore) -> (Self, Reporting) {
        let cluster = match store {
            OpenStore::Dir(_) => None,
            OpenStore::Kube(store) => Some(store.cluster().clone()),
        };
        let (reporter, reports) = Self::with_queue(QUEUE);
        let reporting = Reporting {
            reports,
            cluster,
            recent: Recent::default(),
        };
        (reporter, reporting)
    }

    /// Up to this many reports wait until the other end takes them.
    pub fn with_queue(reports: usize) -> (Self, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(reports);
        (Self(sender), receiver)
    }

    /// Reports about an object, given by its `object_ref`. `reason` is one word in `UpperCamelCase`; the note is cut after
    /// 1,024 bytes. If the queue is full, the report is counted and dropped.
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
        if self.0.try_send(report).is_err() {
            count("dropped");
        }
    }
}

impl Reporting {
    /// Writes the reports until the token is cancelled.
    ///
    /// # Errors
    /// None: an Event that cannot be written is counted.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let all = async {
            while let Some(report) = self.reports.recv().await {
                count(self.take(&report).await);
            }
        };
        token.run_until_cancelled(all).await;
        token.cancelled().await;
        Ok(())
    }

    /// Logs a report and writes its Event. Returns the outcome.
    async fn take(&mut self, report: &Report) -> &'static str {
        if let Err(outcome) = self.recent.add(report, Instant::now()) {
            return outcome;
        }
        report.log();
        let Some(cluster) = &self.cluster else {
            return "logged";
        };
        match write(cluster, report).await {
            Ok(()) => "raised",
            Err(error) => {
                debug!(reason = report.reason, "cannot write an Event: {error}");
                "failed"
            }
        }
    }
}

/// The recent reports by object.
#[derive(Default)]
struct Recent(HashMap<u64, OfObject>);

struct OfObject {
    since: Instant,
    /// The reports within [`MINUTE`] of it.
    reports: u32,
    /// The hash of the last note by reason, and its time.
    notes: HashMap<&'static str, (u64, Instant)>,
}

impl Recent {
    /// Adds a report that is new.
    ///
    /// # Errors
    /// The outcome of one that is not to be written.
    fn add(&mut self, report: &Report, now: Instant) -> Result<(), &'static str> {
        let object = hash(&report.object());
        if self.0.len() >= MAX_OBJECTS && !self.0.contains_key(&object) {
            self.0.clear();
        }
        let recent = self.0.entry(object).or_insert_with(|| OfObject {
            since: now,
            reports: 0,
            notes: HashMap::new(),
        });
        let note = hash(&report.note);
        let last = recent.notes.get(report.reason);
        if last.is_some_and(|(last, at)| *last == note && now < *at + REPEAT_AFTER) {
            return Err("repeated");
        }
        if recent.since + MINUTE <= now {
            (recent.since, recent.reports) = (now, 0);
        }
        if recent.reports >= MAX_OF_OBJECT {
            return Err("dropped");
        }
        recent.reports += 1;
        recent.notes.insert(report.reason, (note, now));
        Ok(())
    }
}

impl Report {
    /// The object. One that was made anew under the same name is another one.
    fn object(&self) -> String {
        let about = &self.about;
        let parts = [&about.kind, &about.namespace, &about.name, &about.uid];
        parts.map(|part| part.as_deref().unwrap_or("")).join("/")
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
        let id = hash(&format!("{}/{}", self.object(), self.reason));
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
async fn write(cluster: &Cluster, report: &Report) -> Result<(), ApiError> {
    let event = report.event(cluster.manager());
    let metadata = &event.metadata;
    let requests = Cluster::requests::<Event>(metadata.namespace.as_deref().unwrap_or_default());
    let patch = requests.patch(
        metadata.name.as_deref().unwrap_or_default(),
        &PatchParams::apply(cluster.manager()).force(),
        &Patch::Apply(&event),
    );
    cluster.send_for_bytes(patch).await.map(drop)
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
        let (mut recent, now) = (Recent::default(), Instant::now());
        let (first, second) = (report("a", "Test", "1"), report("a", "Test", "2"));
        assert_eq!(recent.add(&first, now), Ok(()));
        assert_eq!(recent.add(&first, now), Err("repeated"));
        assert_eq!(recent.add(&report("a", "Other", "1"), now), Ok(()));
        assert_eq!(recent.add(&second, now), Ok(()));
        assert_eq!(recent.add(&second, now + REPEAT_AFTER), Ok(()));
        let events = [&first, &second].map(|it| it.event("tests"));
        assert_eq!(events[0].metadata, events[1].metadata);
    }

    #[test]
    fn reports_of_an_object_beyond_25_a_minute_are_dropped() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        let mut taken = |object: &str, now| {
            let reports = (0..100).map(|i| report(object, "Test", &i.to_string()));
            let taken = reports.filter(|it| recent.add(it, now).is_ok());
            taken.count()
        };
        assert_eq!(taken("noisy", now), 25);
        assert_eq!(taken("quiet", now), 25);
        assert_eq!(taken("noisy", now + MINUTE), 25);
        for i in 0..2 * MAX_OBJECTS {
            taken(&i.to_string(), now);
        }
        assert!(recent.0.len() <= MAX_OBJECTS);
    }

    #[tokio::test]
    async fn reporter_with_full_queue_drops_reports_and_cuts_long_notes() {
        let (reporter, mut reports) = Reporter::with_queue(2);
        for _ in 0..4 {
            let note = "ü".repeat(MAX_NOTE);
            reporter.report(ObjectReference::default(), Severity::Normal, "Test", note);
        }
        let mut taken = 0;
        while let Ok(report) = reports.try_recv() {
            assert_eq!(report.note.len(), MAX_NOTE);
            taken += 1;
        }
        assert_eq!(taken, 2);
    }
}

//! Reports to users about their objects: Kubernetes Events beside the log.
//!
//! A report is a log line and, in a cluster, an Event of `events.k8s.io/v1` on the object. The same report about the
//! same object is repeated once in ten minutes; its Event's series then continues. The name of an Event is derived from
//! its content, so a restart or another replica does not create a duplicate.
//!
//! An Event that the API server cannot take now is retried after a second, then at growing intervals of up to a minute.
//! kube's `Recorder` does not fit: it drops a second, different note with the same reason.
//!
//! 50 reports are sent at once, and then one a second, in turns of namespaces. Thousands of reports of one namespace
//! delay a report of another one by a second.

mod fair_queue;
mod pending;
mod said;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use metrics::counter;
use rapidhash::v3::rapidhash_v3;
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::pending::{AGAIN, BUSY, PendingReports};
use self::{
    fair_queue::FairQueue,
    said::Said,
    waiting::{Unraised, Waiting},
};
use crate::{
    OpenStore,
    cluster::{ApiError, Cluster},
    metrics::Label,
};

/// How many reports may wait.
const QUEUE: usize = 1024;

/// The longest note of an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// The longest name of an Event.
const MAX_NAME: usize = 253;

crate::metrics! {
    /// The metrics of reports.
    pub const METRICS;

    counter REPORTS = "egress_reports_total" [Label::one_of("outcome", &["raised", "logged", "repeated", "failed", "overflow"])]
        "Reports about objects. `raised`: an Event was written. `logged`: there is no cluster, so only the log has it. `repeated`: the same report within ten minutes. `failed`: the API server refused it. `overflow`: the queue was full, and it is reported again later";
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Severity {
    /// Information.
    Normal,
    /// An administrator or author should act.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Takes reports and never blocks. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Reporter(Arc<Queue>);

/// The waiting reports, in turns of namespaces.
#[derive(Debug)]
pub struct Reports(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    reports: Mutex<FairQueue<Report>>,
    arrived: Notify,
}

/// Sends the reports of a [`Reporter`].
pub struct Reporting {
    reports: Reports,
    cluster: Option<Cluster>,
    instance: String,
    said: Said,
    waiting: Waiting,
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

impl Reporter {
    /// Reports to the log and, in a cluster, to Events. Nothing is sent unless the second part runs.
    pub fn new(store: &OpenStore) -> (Self, Reporting) {
        let (reporter, reports) = Self::with_queue(QUEUE);
        let cluster = match store {
            OpenStore::Dir(_) => None,
            OpenStore::Kube(store) => Some(store.cluster().clone()),
        };
        let reporting = Reporting {
            reports,
            cluster,
            instance: crate::leader::host(),
            said: Said::default(),
            waiting: Waiting::default(),
        };
        (reporter, reporting)
    }

    /// Up to this many reports wait until the other end takes them.
    pub fn with_queue(reports: usize) -> (Self, Reports) {
        let queue = Arc::new(Queue {
            reports: Mutex::new(FairQueue::new(reports)),
            arrived: Notify::new(),
        });
        (Self(Arc::clone(&queue)), Reports(queue))
    }

    /// Reports about an object, given by its `object_ref`. `reason` is one word in `UpperCamelCase`; the note is cut
    /// after 1,024 bytes. Returns whether the report was taken. If the queue is full, the report is counted and
    /// dropped, and the caller has to repeat it later.
    #[must_use = "a report that was not taken has to be made again"]
    pub fn report(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        note: impl Into<String>,
    ) -> bool {
        let mut note = note.into();
        note.truncate(note.floor_char_boundary(MAX_NOTE));
        let report = Report {
            about,
            severity,
            reason,
            note,
        };
        let namespace = report.namespace().to_owned();
        let taken = self.0.reports().push(namespace, report).is_ok();
        if taken {
            self.0.arrived.notify_one();
        } else {
            count("overflow");
        }
        taken
    }
}

impl Queue {
    fn reports(&self) -> MutexGuard<'_, FairQueue<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    /// The next report, if one waits.
    pub fn try_next(&mut self) -> Option<Report> {
        self.0.reports().pop()
    }

    /// Waits for the next report. Cancel-safe.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(report) = self.try_next() {
                return report;
            }
            self.0.arrived.notified().await;
        }
    }
}

impl Reporting {
    /// Sends the reports until the token is cancelled.
    ///
    /// # Errors
    /// None: an Event that cannot be raised is counted.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let all = async {
            loop {
                // Reports wait for the pace in the queue, where those of other namespaces overtake them.
                let pace = sleep(self.said.wait(Instant::now()));
                tokio::select! {
                    report = async { pace.await; self.reports.next().await } => self.say(report).await,
                    () = sleep_until(self.waiting.next), if !self.waiting.is_empty() => {
                        self.raise_again().await;
                    }
                }
            }
        };
        token.run_until_cancelled(all).await;
        Ok(())
    }

    async fn say(&mut self, report: Report) {
        let id = report.id();
        let Some(times) = self.said.again(id, Instant::now()) else {
            return count("repeated");
        };
        report.log();
        if self.cluster.is_none() {
            return count("logged");
        }
        let unraised = Unraised {
            report,
            id,
            times,
            since: Instant::now(),
        };
        if self.waiting.is_empty() {
            self.raise(unraised).await;
        } else {
            // The server takes no Events now.
            self.put_off(unraised);
        }
    }

    /// Raises the Event that has waited longest.
    async fn raise_again(&mut self) {
        let (unraised, too_old) = self.waiting.pop(Instant::now());
        for unraised in too_old {
            self.give_up(&unraised);
        }
        if let Some(unraised) = unraised {
            self.raise(unraised).await;
        }
    }

    async fn raise(&mut self, unraised: Unraised) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let Unraised {
            report, id, times, ..
        } = &unraised;
        match raise(cluster, &self.instance, report, *id, *times).await {
            Ok(()) => {
                self.waiting.works();
                count("raised");
            }
            Err(ApiError::Unavailable {
                reason,
                retry_after,
            }) => {
                debug!(reason = report.reason, "an Event is raised later: {reason}");
                self.waiting.fails(retry_after, Instant::now());
                self.put_off(unraised);
            }
            Err(refusal) => {
                debug!(reason = report.reason, "cannot raise an Event: {refusal}");
                self.give_up(&unraised);
            }
        }
    }

    fn put_off(&mut self, unraised: Unraised) {
        if let Some(unraised) = self.waiting.push(unraised) {
            self.give_up(&unraised);
        }
    }

    /// The Event is raised when it is reported again.
    fn give_up(&mut self, unraised: &Unraised) {
        self.said.forget(unraised.id);
        count("failed");
    }
}

impl Report {
    /// The namespace of its Event.
    fn namespace(&self) -> &str {
        self.about.namespace.as_deref().unwrap_or("default")
    }

    /// Equal for equal reports about the same object.
    fn id(&self) -> u64 {
        let about = &self.about;
        let text = json!([
            about.kind,
            about.namespace,
            about.name,
            about.uid,
            self.severity.as_str(),
            self.reason,
            self.note,
        ]);
        rapidhash_v3(text.to_string().as_bytes())
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
}

/// Creates the Event, or continues its series.
async fn raise(
    cluster: &Cluster,
    instance: &str,
    report: &Report,
    id: u64,
    times: i32,
) -> Result<(), ApiError> {
    let namespace = report.namespace();
    let mut name = report.about.name.clone().unwrap_or_default();
    name.truncate(name.floor_char_boundary(MAX_NAME - 17));
    let name = format!("{}.{id:016x}", name.trim_end_matches(['.', '-']));
    let now = MicroTime(Timestamp::now());
    let event = Event {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(report.reason.to_owned()),
        event_time: Some(now.clone()),
        note: Some(report.note.clone()),
        reason: Some(report.reason.to_owned()),
        regarding: Some(report.about.clone()),
        reporting_controller: Some(cluster.manager().to_owned()),
        reporting_instance: Some(instance.to_owned()),
        type_: Some(report.severity.as_str().to_owned()),
        ..Event::default()
    };
    let body = serde_json::to_vec(&event).map_err(|error| ApiError::Invalid(error.to_string()))?;
    let requests = Cluster::requests::<Event>(namespace);
    let made = requests.create(&PostParams::default(), body);
    match cluster.send_for_bytes(made).await {
        Err(ApiError::AlreadyExists(_)) => {}
        made => return made.map(drop),
    }
    let series = json!({ "series": { "count": times.max(2), "lastObservedTime": now } });
    let patched = requests.patch(&name, &PatchParams::default(), &Patch::Merge(series));
    cluster.send_for_bytes(patched).await.map(drop)
}

fn count(outcome: &'static str) {
    counter!(REPORTS, "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests;

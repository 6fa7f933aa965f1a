//! A leader that receives fewer DNS servers than a standby hands the lead over, and the standby that receives most
//! follows.
//!
//! Each standby writes the number of DNS servers that it receives into an annotation of the Lease.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Heard;

/// The annotation: a report for each identity, as JSON.
const ANNOTATION: &str = "egress-by-name/dns-servers";

/// How long a report counts, and for how long a leader must receive fewer servers.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// The interval of the reports of a standby.
const INTERVAL: Duration = Duration::from_secs(25);

/// The least time between two reports.
const LEAST_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Report {
    /// The number of DNS servers that the replica receives.
    servers: usize,
    /// The time by its clock. Others compare it only for a change.
    at: MicroTime,
}

/// The DNS servers that the replicas receive.
pub(super) struct Coverage {
    heard: Heard,
    /// The reports of the other replicas, each with the time when it was first seen.
    others: BTreeMap<String, (Report, Instant)>,
    /// The last own report in the Lease, and its time.
    reported: Option<(usize, Instant)>,
    /// A report whose write has not succeeded.
    writing: Option<(usize, Instant)>,
    /// Since when this leader has received fewer servers than another replica.
    behind_since: Option<Instant>,
}

impl Coverage {
    pub(super) fn new(heard: Heard) -> Self {
        Self {
            heard,
            others: BTreeMap::new(),
            reported: None,
            writing: None,
            behind_since: None,
        }
    }

    /// Takes in the reports of the other replicas.
    pub(super) fn read(&mut self, metadata: &ObjectMeta, own: &str, now: Instant) {
        self.writing = None;
        let mut reports = reports(metadata);
        reports.remove(own);
        let known = std::mem::take(&mut self.others);
        let seen = |(identity, report): (String, Report)| {
            let since = known.get(&identity).filter(|(was, _)| *was == report);
            let since = since.map_or(now, |(_, since)| *since);
            (identity, (report, since))
        };
        self.others = reports.into_iter().map(seen).collect();
    }

    /// Writes the report of this standby into the Lease, if it is due. Reports that no longer count go.
    pub(super) fn report(
        &mut self,
        metadata: &mut ObjectMeta,
        own: &str,
        now: Instant,
        clock: Timestamp,
    ) -> bool {
        let servers = (self.heard)();
        let is_due = self.reported.is_none_or(|(was, at)| {
            let interval = if was == servers {
                INTERVAL
            } else {
                LEAST_INTERVAL
            };
            at + interval <= now
        });
        if !is_due {
            return false;
        }
        let counting = self.counting(now);
        let counting = counting.map(|(identity, report)| (identity.clone(), report.clone()));
        let mut all: BTreeMap<String, Report> = counting.collect();
        let report = Report {
            servers,
            at: MicroTime(clock),
        };
        all.insert(own.to_owned(), report);
        let Ok(text) = serde_json::to_string(&all) else {
            return false;
        };
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION.to_owned(), text);
        self.writing = Some((servers, now));
        true
    }

    /// The Lease was written.
    pub(super) fn wrote(&mut self) {
        self.reported = self.writing.take().or(self.reported);
    }

    /// The reports of other replicas that count.
    fn counting(&self, now: Instant) -> impl Iterator<Item = (&String, &Report)> {
        let counting = self.others.iter();
        let counting = counting.filter(move |(_, (_, since))| *since + COUNTS_FOR > now);
        counting.map(|(identity, (report, _))| (identity, report))
    }

    /// The most DNS servers that another replica reported.
    fn most_of_others(&self, now: Instant) -> Option<usize> {
        self.counting(now).map(|(_, report)| report.servers).max()
    }

    /// Whether another standby reported more servers than this one. A stream that opened since the last report does not
    /// count: the other has heard answers that this one missed.
    pub(super) fn yields(&self, now: Instant) -> bool {
        let own = self.reported.map(|(servers, _)| servers);
        self.most_of_others(now) > Some(own.unwrap_or(0))
    }

    /// Whether this leader has received fewer servers than another replica for [`COUNTS_FOR`].
    pub(super) fn is_behind_for_long(&mut self, leads: bool, now: Instant) -> bool {
        if !leads || self.most_of_others(now) <= Some((self.heard)()) {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        let is_long = since + COUNTS_FOR <= now;
        if is_long {
            self.behind_since = None;
        }
        is_long
    }
}

/// A malformed annotation counts as none.
fn reports(metadata: &ObjectMeta) -> BTreeMap<String, Report> {
    let annotations = metadata.annotations.as_ref();
    let text = annotations.and_then(|it| it.get(ANNOTATION));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    fn coverage(servers: usize) -> (Coverage, Arc<AtomicUsize>) {
        let heard = Arc::new(AtomicUsize::new(servers));
        let read = Arc::clone(&heard);
        (Coverage::new(Box::new(move || read.load(Relaxed))), heard)
    }

    fn clock(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn leader_that_receives_fewer_servers_for_a_minute_is_behind() {
        let (mut leader, heard) = coverage(1);
        let (mut standby, _) = coverage(2);
        let (mut lease, start) = (ObjectMeta::default(), Instant::now());
        let mut behind_at = Vec::new();
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            if second == 100 {
                // Its streams are back.
                heard.store(2, Relaxed);
            }
            standby.report(&mut lease, "standby", now, clock(second as i64));
            leader.read(&lease, "leader", now);
            if leader.is_behind_for_long(true, now) {
                behind_at.push(second);
            }
        }
        assert_eq!(behind_at, [60]);
    }

    #[test]
    fn report_of_a_standby_that_ended_counts_for_a_minute() {
        let (mut leader, _) = coverage(1);
        let (mut standby, _) = coverage(2);
        let (mut lease, start) = (ObjectMeta::default(), Instant::now());
        assert!(standby.report(&mut lease, "standby", start, clock(0)));
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            leader.read(&lease, "leader", now);
            assert!(!leader.is_behind_for_long(true, now), "{second}");
        }
        // The next report of another standby drops it.
        let (mut next, _) = coverage(1);
        next.read(&lease, "next", start);
        next.report(&mut lease, "next", start + COUNTS_FOR, clock(60));
        let left: Vec<_> = reports(&lease).into_keys().collect();
        assert_eq!(left, ["next"]);
    }

    #[test]
    fn standby_reports_changes_and_otherwise_twice_a_minute() {
        let (mut standby, heard) = coverage(2);
        let (mut lease, start) = (ObjectMeta::default(), Instant::now());
        let mut reports = Vec::new();
        for second in 0..80 {
            heard.store(if second < 51 { 2 } else { second as usize }, Relaxed);
            let now = start + Duration::from_secs(second);
            if standby.report(&mut lease, "standby", now, clock(second as i64)) {
                reports.push(second);
                // The first write has a conflict.
                if second > 0 {
                    standby.wrote();
                }
            }
        }
        assert_eq!(reports, [0, 1, 26, 51, 56, 61, 66, 71, 76]);
    }

    #[test]
    fn malformed_annotation_counts_as_none() {
        let (mut leader, _) = coverage(0);
        let mut lease = ObjectMeta::default();
        let annotations = lease.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION.to_owned(), "{\"a\": 7".to_owned());
        leader.read(&lease, "leader", Instant::now());
        assert!(leader.others.is_empty());
    }
}

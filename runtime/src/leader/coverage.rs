//! A leader that receives fewer DNS servers than a standby hands the lead over, and the standby that receives most
//! follows.
//!
//! Each standby writes the number of DNS servers that it receives into an annotation of the Lease.

use std::{collections::BTreeMap, mem, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::Heard;

/// The annotation: a report for each identity, as JSON.
const ANNOTATION: &str = "egress-by-name/dns-servers";

/// How long a report counts, and for how long a leader must receive fewer servers.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// The interval of the reports of a standby.
const INTERVAL: Duration = Duration::from_secs(25);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Report {
    /// The number of DNS servers that the replica receives.
    servers: usize,
    /// The time by its clock. Others compare it only for a change.
    at: MicroTime,
}

/// The DNS servers that the replicas receive.
pub(super) struct Coverage {
    identity: String,
    heard: Heard,
    /// The reports in the Lease, each with the time when it was first seen.
    reports: BTreeMap<String, (Report, Instant)>,
    /// Since when this leader has received fewer servers than another replica.
    behind_since: Option<Instant>,
}

impl Coverage {
    pub(super) fn new(identity: String, heard: Heard) -> Self {
        Self {
            identity,
            heard,
            reports: BTreeMap::new(),
            behind_since: None,
        }
    }

    /// Takes in the reports of a Lease. A malformed annotation counts as none.
    pub(super) fn read(&mut self, lease: &ObjectMeta, now: Instant) {
        let annotations = lease.annotations.as_ref();
        let text = annotations.and_then(|it| it.get(ANNOTATION));
        let found: Option<BTreeMap<String, Report>> =
            text.and_then(|text| serde_json::from_str(text).ok());
        let known = mem::take(&mut self.reports);
        for (identity, report) in found.unwrap_or_default() {
            let same = known.get(&identity).filter(|(was, _)| *was == report);
            let since = same.map_or(now, |(_, since)| *since);
            self.reports.insert(identity, (report, since));
        }
    }

    /// Writes the report of this standby into the Lease, if it is due. Reports that no longer count go.
    pub(super) fn report(&self, lease: &mut ObjectMeta, now: Instant) -> bool {
        let servers = (self.heard)();
        let last = self.reports.get(&self.identity);
        if last.is_some_and(|(was, since)| was.servers == servers && *since + INTERVAL > now) {
            return false;
        }
        let at = MicroTime(Timestamp::now());
        let mut all: BTreeMap<&str, &Report> = self.others(now).collect();
        let own = Report { servers, at };
        all.insert(&self.identity, &own);
        let annotations = lease.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION.to_owned(), json!(all).to_string());
        true
    }

    /// Whether another standby reported more servers than this one. A stream that opened since the last report does not
    /// count: the other has heard answers that this one missed.
    pub(super) fn defers_to_others(&self, now: Instant) -> bool {
        let own = self.reports.get(&self.identity);
        self.most_of_others(now) > Some(own.map_or(0, |(report, _)| report.servers))
    }

    /// Whether this leader has received fewer servers than another replica for [`COUNTS_FOR`].
    pub(super) fn is_behind_for_long(&mut self, leads: bool, now: Instant) -> bool {
        if !leads || self.most_of_others(now) <= Some((self.heard)()) {
            self.behind_since = None;
            return false;
        }
        *self.behind_since.get_or_insert(now) + COUNTS_FOR <= now
    }

    /// The most DNS servers that another replica reported.
    fn most_of_others(&self, now: Instant) -> Option<usize> {
        self.others(now).map(|(_, report)| report.servers).max()
    }

    /// The reports of other replicas that count.
    fn others(&self, now: Instant) -> impl Iterator<Item = (&str, &Report)> {
        let counting = self.reports.iter().filter(move |(identity, (_, since))| {
            **identity != self.identity && *since + COUNTS_FOR > now
        });
        counting.map(|(identity, (report, _))| (&**identity, report))
    }
}

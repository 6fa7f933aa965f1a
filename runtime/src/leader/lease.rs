//! The election of programs that share a Lease, by the rules of client-go's leader election. Clocks of other replicas
//! are not trusted: a Lease expires when its record was not seen to change for its duration.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Error,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::warn;

use super::{Holder, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, coverage::Coverage};
use crate::cluster::{Cluster, answer, in_words};

/// The time-out of the requests of a turn, short enough for a second turn before the deadline.
const TURN_TIMEOUT: Duration = Duration::from_secs(4);

/// The time-out of the release at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a replica does not compete after it released the lead to one that receives more DNS servers.
const PAUSE: Duration = Duration::from_secs(30);

/// A replica that contends for a Lease.
pub(super) struct Candidate {
    api: Api<Lease>,
    params: PostParams,
    election: Election,
    /// Why the last turn failed. Logged when it changes.
    failure: Option<String>,
}

impl Candidate {
    pub(super) fn new(cluster: &Cluster, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(cluster.client(), namespace),
            params: cluster.post_params(),
            election: Election::new(name, identity),
            failure: None,
        }
    }

    /// Hands the lead over to a replica that receives more DNS servers.
    pub(super) fn compare(&mut self, heard: super::Heard) {
        self.election.coverage = Some(Coverage::new(heard));
    }

    /// Contends without end.
    pub(super) async fn contend(&mut self, holder: &Holder) {
        loop {
            let began = Instant::now();
            // Early enough to publish that the lead is lost.
            let leads = self.election.leads_until().filter(|until| began < *until);
            let latest = began + TURN_TIMEOUT;
            let deadline = leads.map_or(latest, |until| until.min(latest));
            let failed = match timeout_at(deadline, self.turn(began)).await {
                Ok(Ok(())) => None,
                Ok(Err(refusal)) => Some(in_words(&refusal)),
                Err(_) => Some("no answer in time".to_owned()),
            };
            let now = Instant::now();
            if self.election.hands_over(now) {
                // This process must stop before others lead.
                holder.follow("another replica receives more DNS servers");
                self.release().await;
            }
            let leads = self.election.leads_until().filter(|until| now < *until);
            match (leads, &failed) {
                (Some(until), _) => holder.lead(Some(until)),
                (None, Some(reason)) => holder.follow(reason),
                (None, None) => holder.follow("another process holds the Lease"),
            }
            if failed != self.failure
                && let Some(reason) = &failed
            {
                warn!("the Lease cannot be read or written: {reason}");
            }
            self.failure = failed;
            let next = began + RETRY_PERIOD;
            sleep_until(leads.map_or(next, |until| next.min(until))).await;
        }
    }

    /// Reads the Lease, and writes it if it may be taken or renewed, or if this replica reports what it receives.
    async fn turn(&mut self, began: Instant) -> kube::Result<()> {
        let found = answer(self.api.get_opt(&self.election.name)).await?;
        let next = self.election.next(found, Instant::now(), Timestamp::now());
        let Some(lease) = next else {
            return Ok(());
        };
        match self.write(&lease).await {
            Ok(stored) => self.election.wrote(stored, began, Instant::now()),
            // Another replica was faster, or the Lease was deleted. The next turn reads it.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Compare-and-swap.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        match lease.metadata.resource_version {
            None => answer(self.api.create(&self.params, lease)).await,
            Some(_) => answer(self.api.replace(&self.election.name, &self.params, lease)).await,
        }
    }

    /// Clears the holder, so that others can lead at once.
    pub(super) async fn release(&mut self) {
        if !self.election.may_hold() {
            return;
        }
        self.election.renewed = None;
        let releasing = async {
            loop {
                let found = answer(self.api.get_opt(&self.election.name)).await?;
                let Some(lease) = found.and_then(|it| self.election.released(it)) else {
                    return Ok(());
                };
                match self.write(&lease).await {
                    // A standby wrote its report.
                    Err(Error::Api(status)) if status.code == 409 => {}
                    written => return written.map(drop),
                }
            }
        };
        let reason = match timeout(RELEASE_TIMEOUT, releasing).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => in_words(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        warn!("cannot release the Lease, so other replicas wait until it expires: {reason}");
    }
}

/// The state of a candidate, and its decisions.
struct Election {
    name: String,
    identity: String,
    /// The record that was last seen, and since when it has not changed.
    seen: Option<(LeaseSpec, Instant)>,
    /// When the last turn began in which this process wrote that it holds the Lease.
    renewed: Option<Instant>,
    /// This process takes no Lease before that.
    not_before: Option<Instant>,
    /// How many DNS servers the replicas receive, if the lead depends on it.
    coverage: Option<Coverage>,
}

impl Election {
    fn new(name: &str, identity: String) -> Self {
        Self {
            name: name.to_owned(),
            identity,
            seen: None,
            renewed: None,
            not_before: None,
            coverage: None,
        }
    }

    /// Until when this process leads, if no other took the Lease. May be in the past.
    fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// Takes in the Lease that was read. Returns the one to write, if any.
    fn next(&mut self, found: Option<Lease>, now: Instant, clock: Timestamp) -> Option<Lease> {
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let spec = lease.spec.clone().unwrap_or_default();
        self.see(&spec, now);
        let is_ours = self.holds(&spec);
        if !is_ours {
            self.renewed = None;
        }
        if let Some(coverage) = &mut self.coverage {
            coverage.read(&lease.metadata, &self.identity, now);
        }
        if is_ours && self.not_before > Some(now) {
            // The release failed.
            return self.released(lease);
        }
        if is_ours || now >= self.may_take(now) {
            lease.spec = Some(self.claimed(&spec, clock));
            return Some(lease);
        }
        let coverage = self.coverage.as_mut()?;
        // A Lease that does not exist needs no report.
        lease.metadata.resource_version.as_ref()?;
        coverage
            .report(&mut lease.metadata, &self.identity, now, clock)
            .then_some(lease)
    }

    fn claimed(&self, spec: &LeaseSpec, clock: Timestamp) -> LeaseSpec {
        let is_ours = self.holds(spec);
        let transitions = spec.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: match spec.acquire_time {
                Some(ref time) if is_ours => Some(time.clone()),
                _ => Some(MicroTime(clock)),
            },
            renew_time: Some(MicroTime(clock)),
            lease_transitions: Some(transitions.saturating_add(i32::from(!is_ours))),
            ..spec.clone()
        }
    }

    /// Records a stored Lease, whose turn began at `began`.
    fn wrote(&mut self, stored: Lease, began: Instant, now: Instant) {
        if let Some(coverage) = &mut self.coverage {
            coverage.wrote();
        }
        let spec = stored.spec.unwrap_or_default();
        self.renewed = self.holds(&spec).then_some(began);
        self.see(&spec, now);
    }

    /// Records a record, and since when it has not changed.
    fn see(&mut self, spec: &LeaseSpec, now: Instant) {
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.seen = Some((spec.clone(), now));
        }
    }

    /// Whether this process leads, and must release the lead now to a replica that receives more DNS servers.
    fn hands_over(&mut self, now: Instant) -> bool {
        let leads = self.renewed.is_some();
        let Some(coverage) = self.coverage.as_mut() else {
            return false;
        };
        if !coverage.is_behind_for_long(leads, now) {
            return false;
        }
        self.not_before = Some(now + PAUSE);
        true
    }

    /// Whether this process holds the Lease, as far as it knows.
    fn may_hold(&self) -> bool {
        self.seen.as_ref().is_some_and(|(spec, _)| self.holds(spec))
    }

    /// The Lease without its holder, if that is this process.
    fn released(&mut self, mut lease: Lease) -> Option<Lease> {
        let spec = lease.spec.as_mut().filter(|spec| self.holds(spec))?;
        spec.holder_identity = None;
        self.seen = Some((spec.clone(), Instant::now()));
        Some(lease)
    }

    /// When this process may take the Lease of another, if it does not change. A released one goes to the replica that
    /// receives most DNS servers.
    fn may_take(&self, now: Instant) -> Instant {
        let yields = self.coverage.as_ref().is_some_and(|it| it.yields(now));
        let over = self.seen.as_ref().map_or(now, |(spec, since)| {
            let holder = spec.holder_identity.as_deref();
            if yields || holder.is_some_and(|it| !it.is_empty()) {
                *since + LEASE_DURATION
            } else {
                *since
            }
        });
        self.not_before
            .map_or(over, |not_before| over.max(not_before))
    }

    fn holds(&self, spec: &LeaseSpec) -> bool {
        spec.holder_identity.as_ref() == Some(&self.identity)
    }
}

#[cfg(test)]
mod tests;

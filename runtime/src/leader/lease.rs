//! The election of programs that share a Lease, by the rules of client-go's leader election. Clocks of other replicas
//! are not trusted: a Lease expires when its record was not seen to change for its duration.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{Api, Error, api::PostParams};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::warn;

use super::{
    Heard, Holder, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, YIELD, coverage::Coverage,
};
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
    name: String,
    identity: String,
    /// The record that was last seen, and since when it has not changed.
    seen: (LeaseSpec, Instant),
    /// When the last turn began in which this process wrote that it holds the Lease.
    renewed: Option<Instant>,
    /// This process takes no Lease before that.
    not_before: Instant,
    /// How many DNS servers the replicas receive, if the lead depends on it.
    coverage: Option<Coverage>,
}

impl Candidate {
    pub(super) fn new(cluster: &Cluster, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(cluster.client(), namespace),
            params: cluster.post_params(),
            name: name.to_owned(),
            identity,
            seen: (LeaseSpec::default(), Instant::now()),
            renewed: None,
            not_before: Instant::now(),
            coverage: None,
        }
    }

    /// Hands the lead over to a replica that receives more DNS servers.
    pub(super) fn compare(&mut self, heard: Heard) {
        self.coverage = Some(Coverage::new(self.identity.clone(), heard));
    }

    /// Contends without end.
    pub(super) async fn contend(&mut self, holder: &Holder) {
        let mut last_failure = None;
        loop {
            let began = Instant::now();
            // Early enough to publish that the lead is lost.
            let latest = began + TURN_TIMEOUT;
            let deadline = self.leads_until(began).unwrap_or(latest).min(latest);
            let failure = match timeout_at(deadline, self.turn(began)).await {
                Ok(done) => done.err().map(|error| in_words(&error)),
                Err(_) => Some("no answer in time".to_owned()),
            };
            if failure != last_failure
                && let Some(reason) = &failure
            {
                warn!("the Lease cannot be read or written: {reason}");
            }
            let now = Instant::now();
            let leads = self.renewed.is_some();
            if let Some(coverage) = &mut self.coverage
                && coverage.is_behind_for_long(leads, now)
            {
                // This process must stop before others lead.
                holder.follow("another replica receives more DNS servers");
                self.not_before = now + PAUSE;
                self.release().await;
            }
            let leads_until = self.leads_until(now);
            match (leads_until, &failure) {
                (Some(until), _) => holder.lead(Some(until)),
                (None, Some(reason)) => holder.follow(reason),
                (None, None) => holder.follow("another process holds the Lease"),
            }
            last_failure = failure;
            let next = began + RETRY_PERIOD;
            sleep_until(leads_until.unwrap_or(next).min(next)).await;
        }
    }

    /// Clears the holder, so that others can lead at once.
    pub(super) async fn release(&mut self) {
        if self.renewed.take().is_none() {
            return;
        }
        let releasing = async {
            while let Some(mut lease) = answer(self.api.get_opt(&self.name)).await? {
                let Some(spec) = lease.spec.as_mut().filter(|spec| self.holds(spec)) else {
                    break;
                };
                spec.holder_identity = None;
                match self.write(&lease).await {
                    // A standby wrote its report.
                    Err(Error::Api(status)) if status.code == 409 => {}
                    written => return written.map(drop),
                }
            }
            Ok(())
        };
        let reason = match timeout(RELEASE_TIMEOUT, releasing).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => in_words(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        warn!("cannot release the Lease, so other replicas wait until it expires: {reason}");
    }

    /// Until when this process leads, if no other took the Lease.
    fn leads_until(&self, now: Instant) -> Option<Instant> {
        let until = self.renewed? + RENEW_DEADLINE;
        (now < until).then_some(until)
    }

    /// Reads the Lease, and writes it if it may be taken or renewed, or if this replica reports what it receives.
    async fn turn(&mut self, began: Instant) -> kube::Result<()> {
        let found = answer(self.api.get_opt(&self.name)).await?;
        let Some(lease) = self.next(found, Instant::now()) else {
            return Ok(());
        };
        match self.write(&lease).await {
            Ok(stored) => {
                let spec = stored.spec.unwrap_or_default();
                self.renewed = self.holds(&spec).then_some(began);
                self.see(&spec, Instant::now());
                Ok(())
            }
            // Another replica was faster, or the Lease was deleted. The next turn reads it.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Compare-and-swap.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        match lease.metadata.resource_version {
            None => answer(self.api.create(&self.params, lease)).await,
            Some(_) => answer(self.api.replace(&self.name, &self.params, lease)).await,
        }
    }

    /// Takes in the Lease that was read. Returns the one to write, if any.
    fn next(&mut self, found: Option<Lease>, now: Instant) -> Option<Lease> {
        let mut lease = found.unwrap_or_default();
        lease.metadata.name = Some(self.name.clone());
        let spec = lease.spec.take().unwrap_or_default();
        self.see(&spec, now);
        let is_ours = self.holds(&spec);
        if !is_ours {
            self.renewed = None;
        }
        if let Some(coverage) = &mut self.coverage {
            coverage.read(&lease.metadata, now);
        }
        if now >= self.not_before && (is_ours || now >= self.free_at(now)) {
            lease.spec = Some(self.claimed(spec));
            return Some(lease);
        }
        if is_ours {
            // The release failed.
            let holder_identity = None;
            lease.spec = Some(LeaseSpec {
                holder_identity,
                ..spec
            });
            return Some(lease);
        }
        // The reports from before a release decide who takes the Lease.
        let coverage = self.coverage.as_ref().filter(|_| is_held(&spec))?;
        lease.spec = Some(spec);
        coverage.report(&mut lease.metadata, now).then_some(lease)
    }

    fn claimed(&self, spec: LeaseSpec) -> LeaseSpec {
        let is_ours = self.holds(&spec);
        let now = || MicroTime(Timestamp::now());
        let transitions = spec.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(spec.acquire_time.filter(|_| is_ours).unwrap_or_else(now)),
            renew_time: Some(now()),
            lease_transitions: Some(transitions.saturating_add(i32::from(!is_ours))),
            ..spec
        }
    }

    /// When this process may take the Lease of another, if it does not change. The replica that receives most DNS servers
    /// comes first.
    fn free_at(&self, now: Instant) -> Instant {
        let (spec, since) = &self.seen;
        let mut free_at = *since;
        if is_held(spec) {
            free_at += LEASE_DURATION;
        }
        if self
            .coverage
            .as_ref()
            .is_some_and(|it| it.defers_to_others(now))
        {
            free_at += YIELD;
        }
        free_at
    }

    fn see(&mut self, spec: &LeaseSpec, now: Instant) {
        if self.seen.0 != *spec {
            self.seen = (spec.clone(), now);
        }
    }

    fn holds(&self, spec: &LeaseSpec) -> bool {
        spec.holder_identity.as_ref() == Some(&self.identity)
    }
}

fn is_held(spec: &LeaseSpec) -> bool {
    spec.holder_identity
        .as_ref()
        .is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests;

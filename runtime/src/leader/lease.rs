//! The election of programs that share a Lease, by the rules of client-go's leader election. Clocks of other replicas
//! are not trusted: a Lease expires when it was not seen to change for its duration.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::api::{GetParams, ObjectMeta, PostParams};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{debug, warn};

use super::{Deference, Holder, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use crate::cluster::{ApiError, Cluster};

/// The time-out of a request, short enough for a second one before the deadline.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(3_500);

/// The time-out of the release at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest accepted duration of another's Lease.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// A replica that contends for a Lease.
pub(super) struct Candidate {
    cluster: Cluster,
    namespace: String,
    election: Election,
    /// The last request failed, and the log says so.
    said: bool,
}

impl Candidate {
    pub(super) fn new(cluster: Cluster, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            cluster,
            namespace: namespace.to_owned(),
            election: Election::new(name, identity),
            said: false,
        }
    }

    /// Contends without end.
    pub(super) async fn contend(&mut self, holder: &Holder, mut deference: Deference) {
        loop {
            let began = Instant::now();
            deference.look(self.election.another_holds(began), began);
            self.election.delay = deference.delay();
            // Early enough to publish that the lead is lost.
            let leads = self.election.leads_until().filter(|until| began < *until);
            let latest = began + REQUEST_TIMEOUT;
            let deadline = leads.map_or(latest, |until| until.min(latest));
            let failed = match timeout_at(deadline, self.turn(began)).await {
                Ok(Ok(())) => None,
                Ok(Err(refusal)) => Some(refusal.to_string()),
                Err(_) => Some("no answer in time".to_owned()),
            };
            let now = Instant::now();
            let mut still = self.election.leads_until().filter(|until| now < *until);
            if still.is_some() && deference.yields(now) {
                // This process must stop before others lead.
                holder.follow("others would lead better");
                self.release().await;
                self.election.renewed = None;
                still = None;
            }
            match (still, &failed) {
                (Some(until), _) => holder.lead(Some(until)),
                (None, Some(reason)) => holder.follow(reason),
                (None, None) => holder.follow("another process holds the Lease"),
            }
            self.say(failed);
            let next = self.election.next_turn(began);
            sleep_until(still.map_or(next, |until| next.min(until))).await;
        }
    }

    /// Reads the Lease, unless this process holds it, and writes it if it may be taken or renewed.
    async fn turn(&mut self, began: Instant) -> Result<(), ApiError> {
        if self
            .election
            .leads_until()
            .is_none_or(|until| until <= began)
        {
            let found = self.look().await?;
            self.election.found(found, Instant::now());
        }
        let Some(lease) = self.election.claim(Instant::now(), Timestamp::now()) else {
            return Ok(());
        };
        match self.write(&lease).await {
            Ok(stored) => {
                self.election.wrote(stored, began, Instant::now());
                Ok(())
            }
            // Another replica was faster, or the Lease was deleted: read again.
            Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_)) => {
                let found = self.look().await?;
                self.election.found(found, Instant::now());
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }
    }

    async fn look(&self) -> Result<Option<Lease>, ApiError> {
        let requests = Cluster::requests::<Lease>(&self.namespace);
        let request = requests.get(&self.election.name, &GetParams::default());
        match self.cluster.send(request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Compare-and-swap.
    async fn write(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let body =
            serde_json::to_vec(lease).map_err(|error| ApiError::Invalid(error.to_string()))?;
        let requests = Cluster::requests::<Lease>(&self.namespace);
        let params = PostParams {
            dry_run: false,
            field_manager: Some(self.cluster.manager().to_owned()),
        };
        let request = match lease.metadata.resource_version {
            None => requests.create(&params, body),
            Some(_) => requests.replace(&self.election.name, &params, body),
        };
        self.cluster.send(request).await
    }

    /// Clears the holder, so that others can lead at once.
    pub(super) async fn release(&mut self) {
        let Some(lease) = self.election.released(Timestamp::now()) else {
            return;
        };
        let reason = match timeout(RELEASE_TIMEOUT, self.write(&lease)).await {
            Ok(Ok(_)) => return,
            Ok(Err(refusal)) => refusal.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        warn!("cannot release the Lease, so other replicas wait until it expires: {reason}");
    }

    fn say(&mut self, failed: Option<String>) {
        match &failed {
            Some(reason) if !self.said => warn!("the Lease cannot be read or written: {reason}"),
            Some(reason) => debug!("the Lease cannot be read or written: {reason}"),
            None => {}
        }
        self.said = failed.is_some();
    }
}

/// The state of a candidate, and its decisions.
struct Election {
    name: String,
    identity: String,
    /// How much later an expired Lease is taken.
    delay: Duration,
    seen: Option<ObservedLease>,
    /// When the write of the last renewal began.
    renewed: Option<Instant>,
}

/// A Lease, and since when it has not changed.
struct ObservedLease {
    lease: Lease,
    since: Instant,
}

impl Election {
    fn new(name: &str, identity: String) -> Self {
        Self {
            name: name.to_owned(),
            identity,
            delay: Duration::ZERO,
            seen: None,
            renewed: None,
        }
    }

    /// Until when this process leads, if no other took the Lease. May be in the past.
    fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// Records the Lease that was read.
    fn found(&mut self, found: Option<Lease>, now: Instant) {
        if !found.as_ref().is_some_and(|lease| self.holds(lease)) {
            self.renewed = None;
        }
        let is_same = |seen: &ObservedLease, lease: &Lease| {
            let (before, now) = (&seen.lease.metadata, &lease.metadata);
            before.uid == now.uid && before.resource_version == now.resource_version
        };
        match (&self.seen, found) {
            (Some(seen), Some(lease)) if is_same(seen, &lease) => {}
            (_, found) => self.seen = found.map(|lease| ObservedLease { lease, since: now }),
        }
    }

    /// The Lease to write, if this process may take or renew it.
    fn claim(&self, now: Instant, clock: Timestamp) -> Option<Lease> {
        let Some(seen) = &self.seen else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            };
            let spec = match self.delay.is_zero() {
                true => self.claimed(&LeaseSpec::default(), clock),
                // Without a holder, so that others may take it.
                false => LeaseSpec::default(),
            };
            return Some(Lease {
                metadata,
                spec: Some(spec),
            });
        };
        if !self.holds(&seen.lease) && now < self.may_take(seen) {
            return None;
        }
        let spec = seen.lease.spec.clone().unwrap_or_default();
        Some(Lease {
            metadata: seen.lease.metadata.clone(),
            spec: Some(self.claimed(&spec, clock)),
        })
    }

    fn claimed(&self, spec: &LeaseSpec, clock: Timestamp) -> LeaseSpec {
        let is_ours = spec.holder_identity.as_ref() == Some(&self.identity);
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

    /// Records a stored claim, whose request began at `began`.
    fn wrote(&mut self, stored: Lease, began: Instant, now: Instant) {
        self.renewed = self.holds(&stored).then_some(began);
        self.seen = Some(ObservedLease {
            lease: stored,
            since: now,
        });
    }

    /// The Lease without its holder, if that is this process.
    fn released(&self, clock: Timestamp) -> Option<Lease> {
        let seen = self.seen.as_ref().filter(|seen| self.holds(&seen.lease))?;
        let mut lease = seen.lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(clock));
        Some(lease)
    }

    /// When to read or write again, after an attempt that began at `began`.
    fn next_turn(&self, began: Instant) -> Instant {
        let next = began + RETRY_PERIOD;
        let others = self.seen.as_ref().filter(|seen| !self.holds(&seen.lease));
        // No later than the Lease may be taken. A later attempt has failed.
        let may_take = others.map(|seen| self.may_take(seen));
        may_take
            .filter(|at| *at > began)
            .map_or(next, |at| at.min(next))
    }

    /// When this process may take the Lease of another, if it does not change.
    fn may_take(&self, seen: &ObservedLease) -> Instant {
        over(seen) + self.delay
    }

    /// Whether another holds the Lease, and it has not expired.
    fn another_holds(&self, now: Instant) -> bool {
        let seen = self.seen.as_ref().filter(|seen| !self.holds(&seen.lease));
        seen.is_some_and(|seen| has_holder(&seen.lease) && now < over(seen))
    }

    fn holds(&self, lease: &Lease) -> bool {
        let spec = lease.spec.as_ref();
        spec.and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.identity)
    }
}

fn has_holder(lease: &Lease) -> bool {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    holder.is_some_and(|holder| !holder.is_empty())
}

/// When a Lease expires if it does not change.
fn over(seen: &ObservedLease) -> Instant {
    if !has_holder(&seen.lease) {
        return seen.since;
    }
    let spec = seen.lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let asked = Duration::from_secs(seconds.map_or(0, |s| u64::try_from(s).unwrap_or(0)));
    seen.since + asked.clamp(LEASE_DURATION, MAX_DURATION)
}

#[cfg(test)]
mod tests;

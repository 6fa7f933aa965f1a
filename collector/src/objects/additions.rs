//! Addresses that a standby finds missing in a status, and the fate of those it added.

use std::{net::IpAddr, time::Duration};

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::stored_object::StoredObject;
use crate::{
    observation::Observation,
    state::{Addition, NameState},
};

/// How long an address that the leader removed is not added again.
const REFUSED_FOR: Duration = Duration::from_secs(3600);

/// If the leader removed so many names under a wildcard that a client queried, none of that
/// client's is added.
const NAMES_REFUSED: usize = 8;

/// The most addresses of an object that wait, or are remembered.
pub(crate) const MOST: usize = 256;

/// The missing addresses of a name's objects.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub(crate) waiting: Vec<WaitingAddition>,
    pub(crate) made: Vec<Made>,
    pub(crate) refused: Vec<RemovedByLeader>,
}

/// An address that the leader removed.
#[derive(Debug)]
pub(crate) struct RemovedByLeader {
    pub(crate) name: DnsName,
    /// The address, or `None` if the whole name left its wildcard.
    pub(crate) ip: Option<IpAddr>,
    /// The client that queried it.
    pub(crate) client: IpAddr,
    /// Until when it is not added.
    pub(crate) until: Timestamp,
}

#[derive(Debug)]
pub(crate) struct WaitingAddition {
    pub(crate) addition: Addition,
    /// The client that got the address.
    pub(crate) client: IpAddr,
    pub(crate) since: Timestamp,
}

/// An address that this collector added.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) name: DnsName,
    pub(crate) ip: IpAddr,
    pub(crate) client: IpAddr,
    /// When its write began.
    pub(crate) at: Timestamp,
    /// The end of its TTL and grace.
    pub(crate) until: Timestamp,
    /// The status had it.
    pub(crate) stood: bool,
}

impl Additions {
    /// Queues an address of an answer to a client that a status lacks, unless the leader removed it
    /// before. `ttl` is within the limits. Returns whether it waits, or would if there were room.
    pub(crate) fn add(
        &mut self,
        spec: &DnsName,
        observation: &Observation,
        client: IpAddr,
        ip: IpAddr,
        ttl: u32,
    ) -> bool {
        if self.is_refused(spec, &observation.name, ip, client, observation.at) {
            return false;
        }
        let addition = Addition {
            name: observation.name.clone(),
            ip,
            ttl,
            looked_up: observation.given.min(observation.at),
        };
        let mut waiting = self.waiting.iter_mut();
        if let Some(known) = waiting.find(|it| it.addition.is_of(&addition.name, ip)) {
            known.addition = addition;
        } else if self.waiting.len() < MOST {
            let since = addition.looked_up;
            self.waiting.push(WaitingAddition {
                addition,
                client,
                since,
            });
        } else {
            count_refused("too_many", 1);
        }
        true
    }

    /// Compares with a new status of an object. Returns how late its addresses came, if any was
    /// waited for.
    pub(crate) fn follow_status(
        &mut self,
        spec: &DnsName,
        objects: &[StoredObject],
        now: Timestamp,
    ) -> Option<Duration> {
        let mut late: Option<Duration> = None;
        let mut came = |since| late = late.into_iter().chain([now.since(since)]).min();
        let Self {
            waiting,
            made,
            refused,
        } = self;
        let before = refused.len();
        waiting.retain(|waiting| {
            let WaitingAddition {
                addition, since, ..
            } = waiting;
            let is_there = StoredObject::all_have(objects, addition.ip);
            if is_there && !was_made(made, addition) {
                came(*since);
            }
            !is_there
        });
        made.retain_mut(|made| {
            let is_there = StoredObject::all_have(objects, made.ip);
            let was_taken_out = made.stood && !is_there && now < made.until;
            if is_there && !made.stood {
                came(made.at);
            }
            made.stood |= is_there;
            if was_taken_out && refused.len() < MOST {
                count_refused("taken_out", 1);
                let mut objects = objects.iter();
                let name_stays =
                    made.name == *spec || objects.any(|it| it.status.has_name(&made.name));
                let ip = name_stays.then_some(made.ip);
                if !refused.iter().any(|it| it.name == made.name && it.ip == ip) {
                    refused.push(RemovedByLeader {
                        name: made.name.clone(),
                        ip,
                        client: made.client,
                        until: now + REFUSED_FOR,
                    });
                }
            }
            !was_taken_out
        });
        if refused.len() > before {
            waiting.retain(|it| {
                it.addition.name == *spec || !leaves_names_out(refused, spec, it.client, now)
            });
        }
        late
    }

    /// Whether the state has an unexpired address that does not wait to be added.
    pub(crate) fn lacks_some_of(&self, memory: &NameState, now: Timestamp) -> bool {
        let mut alive = memory
            .list()
            .alive(now)
            .flat_map(|(_, _, addresses, _)| addresses);
        let waits = |ip| self.waiting.iter().any(|it| it.addition.ip == ip);
        self.waiting.len() < MOST && alive.any(|(ip, _)| !waits(ip))
    }

    /// Whether the address of a name that the client queried is not to be added.
    fn is_refused(
        &self,
        spec: &DnsName,
        name: &DnsName,
        ip: IpAddr,
        client: IpAddr,
        now: Timestamp,
    ) -> bool {
        let mut refused = self.refused.iter().filter(|it| now < it.until);
        refused.any(|it| it.ip.is_none_or(|it| it == ip) && it.name == *name)
            || name != spec && leaves_names_out(&self.refused, spec, client, now)
    }

    pub(crate) fn forget_past(&mut self, now: Timestamp) {
        self.waiting.retain(|it| it.addition.expiry() > now);
        self.made.retain(|made| made.until > now);
        self.refused.retain(|it| it.until > now);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.made.is_empty() && self.refused.is_empty()
    }
}

/// Whether the leader removed so many of the client's names under the wildcard that it seems to
/// refuse all of them. That happens when their namespace exceeds its quota, and a standby does not
/// know namespaces.
fn leaves_names_out(
    refused: &[RemovedByLeader],
    spec: &DnsName,
    client: IpAddr,
    now: Timestamp,
) -> bool {
    let names = refused
        .iter()
        .filter(|it| it.name != *spec && it.ip.is_none() && it.client == client && now < it.until);
    refused.len() >= MOST || names.count() >= NAMES_REFUSED
}

pub(crate) fn was_made(made: &[Made], addition: &Addition) -> bool {
    made.iter().any(|it| addition.is_of(&it.name, it.ip))
}

pub(crate) fn count_refused(reason: &'static str, times: usize) {
    counter!("egress_collector_standby_additions_refused_total", "reason" => reason)
        .increment(times as u64);
}

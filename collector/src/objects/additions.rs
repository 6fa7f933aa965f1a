//! What a standby found missing in a status, and what became of it.

use std::{net::IpAddr, time::Duration};

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::stored_object::StoredObject;
use crate::{
    observation::Observation,
    state::{Addition, NameState},
};

/// What the leader took out is not added again for so long.
const REFUSED_FOR: Duration = Duration::from_secs(3600);

/// If the leader took out so many names under a wildcard that a client asked for, none of the client's is added for so long.
const NAMES_REFUSED: usize = 8;

/// Addresses of an object that wait, or are remembered.
pub(crate) const MOST: usize = 256;

/// What a standby finds missing in the status of a name's objects.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) made: Vec<Made>,
    pub(crate) refused: Vec<Refused>,
}

/// What the leader took out.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) name: DnsName,
    /// The address; all of them if the name itself went from under its wildcard.
    pub(crate) ip: Option<IpAddr>,
    /// The client that asked for it.
    pub(crate) client: IpAddr,
    /// Not to be added before then.
    pub(crate) until: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) addition: Addition,
    /// The client that was told.
    pub(crate) client: IpAddr,
    pub(crate) since: Timestamp,
}

/// An address that this collector has added.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) name: DnsName,
    pub(crate) ip: IpAddr,
    pub(crate) client: IpAddr,
    /// When its write began.
    pub(crate) at: Timestamp,
    /// Its TTL and grace are over then.
    pub(crate) until: Timestamp,
    /// The status had it.
    pub(crate) stood: bool,
}

/// An address that a client was told and that a status of the name lacks.
pub(crate) struct MissingAddress<'a> {
    pub(crate) observation: &'a Observation,
    pub(crate) client: IpAddr,
    pub(crate) ip: IpAddr,
    /// Its TTL in seconds, within the limits.
    pub(crate) ttl: u32,
}

impl Additions {
    /// Takes in a missing address, unless the leader took it out. Returns whether it waits, or would if there were room.
    pub(crate) fn add(&mut self, spec: &DnsName, missing: &MissingAddress<'_>) -> bool {
        let MissingAddress {
            observation,
            client,
            ip,
            ttl,
        } = *missing;
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
            self.waiting.push(Waiting {
                addition,
                client,
                since,
            });
        } else {
            count_refused("too_many", 1);
        }
        true
    }

    /// The status of an object of the name is another one. Returns how late what came with it was, if something did.
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
            let Waiting {
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
                    refused.push(Refused {
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

    /// Whether the memory knows an address of today that does not wait to be added.
    pub(crate) fn lacks_some_of(&self, memory: &NameState, now: Timestamp) -> bool {
        let mut alive = memory
            .list()
            .alive(now)
            .flat_map(|(_, _, addresses, _)| addresses);
        let waits = |ip| self.waiting.iter().any(|it| it.addition.ip == ip);
        self.waiting.len() < MOST && alive.any(|(ip, _)| !waits(ip))
    }

    /// Whether the address of a name that a client asked for is not to be added.
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

    /// The object was made again, and has lost what it had.
    pub(crate) fn forget_made(&mut self) {
        self.made.clear();
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

/// Whether the leader took out so many names under the wildcard that a client asked for that it takes none in, as their namespace has too
/// much. The standby does not know the namespaces.
fn leaves_names_out(refused: &[Refused], spec: &DnsName, client: IpAddr, now: Timestamp) -> bool {
    let names = refused
        .iter()
        .filter(|it| it.name != *spec && it.ip.is_none() && it.client == client && now < it.until);
    refused.len() >= MOST || names.count() >= NAMES_REFUSED
}

pub(crate) fn was_made(made: &[Made], addition: &Addition) -> bool {
    made.iter().any(|it| addition.is_of(&it.name, it.ip))
}

/// Counts addresses that a standby does not add.
pub(crate) fn count_refused(reason: &'static str, times: usize) {
    counter!("collector_standby_additions_refused_total", "reason" => reason)
        .increment(times as u64);
}

//! From a dnstap frame to an observation: what every event goes through. No IO, and no lock and no allocation for an event
//! that is neither wanted nor remembered.

use std::{net::IpAddr, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns, dnstap,
};
use runtime::clock::{Clock, Timestamp};
use smallvec::SmallVec;

use super::{
    metrics::{Counts, Outcome},
    secret::Secrets,
};
use crate::{
    guards::Guards,
    names::{Match, NameIndex},
    observation::Observation,
    remember::{self, Remembered},
    resolve::{Addresses, Asker, OwnQueries},
};

/// What events are held against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The wanted names.
    pub names: &'a NameIndex,
    /// Which addresses may come in.
    pub guards: &'a Guards,
    /// The time of receipt.
    pub clock: &'a Clock,
    /// Where answers go that nobody wants yet.
    pub remembered: &'a Remembered,
    /// Our own look-ups and the other replicas', which the DNS server reports like any client's.
    pub own: &'a OwnQueries,
    /// What an event must show in `extra`, if anything.
    pub secrets: Option<&'a Secrets>,
}

/// Addresses that are taken from one answer, as many as a name may have. A message has room for 4,000, and what waits for the
/// owner must be bounded in bytes too.
pub const MAX_ADDRESSES: usize = 1000;

/// Decodes a data frame and holds it against the wanted names. Whatever comes of it is counted.
pub fn observe(frame: &[u8], context: Context<'_>, counts: &mut Counts) -> Option<Observation> {
    let judged = match dnstap::ClientResponse::parse_usual(frame) {
        Some(Some(event)) => judge(event, context, counts),
        Some(None) => Err(Outcome::OtherKind),
        None => judge_unusual(frame, context, counts),
    };
    match judged {
        Ok(observation) => {
            counts.add(Outcome::Observed);
            Some(observation)
        }
        Err(outcome) => {
            counts.add(outcome);
            None
        }
    }
}

/// The same for what no CoreDNS sent.
#[cold]
#[inline(never)]
fn judge_unusual(
    frame: &[u8],
    context: Context<'_>,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let event = dnstap::ClientResponse::parse(frame).map_err(|_| Outcome::BadEvent)?;
    judge(event.ok_or(Outcome::OtherKind)?, context, counts)
}

// In line, and what few events come to is out of line and takes what it needs by value: so all of this is done in registers.

#[inline(always)]
fn judge(
    event: dnstap::ClientResponse<'_>,
    context: Context<'_>,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    if context
        .secrets
        .is_some_and(|secrets| !secrets.admit(event.extra))
    {
        return Err(Outcome::WrongSecret);
    }
    let message = event.message.ok_or(Outcome::NoMessage)?;
    // Most responses are failures: they end before their question is read.
    let header = dns::Header::parse(message).map_err(|_| Outcome::BadMessage)?;
    if !header.is_response() || header.opcode() != dns::OPCODE_QUERY {
        return Err(Outcome::BadMessage);
    }
    if header.rcode() != dns::RCODE_NOERROR {
        return Err(Outcome::Failure);
    }
    let response = dns::Response::parse(message).map_err(|_| Outcome::BadMessage)?;
    let question = response.question();
    let family = match (question.qclass, question.qtype) {
        (dns::CLASS_IN, dns::TYPE_A) => Family::V4,
        (dns::CLASS_IN, dns::TYPE_AAAA) => Family::V6,
        _ => return Err(Outcome::OtherType),
    };
    match context.names.find(question.name) {
        Some(found) => take(found, event, response, family, context, counts),
        None => {
            if context.remembered.is_enabled() {
                remember(event, response, family, context);
            }
            Err(Outcome::NotWanted)
        }
    }
}

/// The observation that an answer for a wanted name is.
#[inline(never)]
fn take(
    found: Match<'_>,
    event: dnstap::ClientResponse<'_>,
    response: dns::Response<'_>,
    family: Family,
    context: Context<'_>,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let Context { guards, clock, .. } = context;
    let name = match found {
        Match::Exact(name) => name.clone(),
        Match::Wildcard => {
            DnsName::try_from(&response.question().name.lower()).map_err(|_| Outcome::BadName)?
        }
    };
    let mut addresses = Addresses::new();
    let mut refused = None;
    response
        .addresses(|address, ttl| match guards.admit(address) {
            Ok(_) if addresses.len() >= MAX_ADDRESSES => counts.refuse("too-many"),
            Ok(address) => addresses.push((address, ttl)),
            Err(reason) => {
                refused = Some(reason);
                counts.refuse(reason);
            }
        })
        .map_err(|_| Outcome::BadMessage)?;
    if let Some(reason) = refused {
        counts.rebound(&name, reason);
    }
    if addresses.is_empty() {
        return Err(if refused.is_some() {
            Outcome::Refused
        } else {
            Outcome::NoAddress
        });
    }
    let asker = asker(event, context);
    Ok(Observation {
        name,
        family,
        addresses,
        at: clock.now(),
        answered_at: event.time().and_then(timestamp),
        client: client(asker),
        by_leader: asker == Asker::Leader,
        truncated: response.truncated(),
    })
}

/// Keeps the answer for a rule that is still to come.
#[inline(never)]
fn remember(
    event: dnstap::ClientResponse<'_>,
    response: dns::Response<'_>,
    family: Family,
    context: Context<'_>,
) {
    let mut addresses = SmallVec::<[(IpAddr, u32); remember::MAX_ADDRESSES]>::new();
    let read = response.addresses(|address, ttl| {
        if let Ok(address) = context.guards.admit(address)
            && addresses.len() < remember::MAX_ADDRESSES
        {
            addresses.push((address, ttl));
        }
    });
    if read.is_ok() && !addresses.is_empty() {
        context.remembered.keep(
            &response.question().name.lower(),
            family,
            &addresses,
            context.clock.now(),
            client(asker(event, context)),
        );
    }
}

fn asker(event: dnstap::ClientResponse<'_>, context: Context<'_>) -> Asker {
    context.own.asker(event.client(), event.port())
}

/// Who asked, if it is no collector.
fn client(asker: Asker) -> Option<IpAddr> {
    match asker {
        Asker::Client(address) => Some(address),
        Asker::Ourselves | Asker::Leader | Asker::Replica | Asker::Unknown => None,
    }
}

/// A dnstap time: seconds and nanoseconds since the Unix epoch.
pub(crate) fn timestamp(time: dnstap::Timestamp) -> Option<Timestamp> {
    let seconds = i64::try_from(time.seconds).ok()?.checked_mul(1000)?;
    Some(Timestamp::from_millis(seconds) + Duration::from_nanos(time.nanoseconds.into()))
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
pub(crate) mod tests;

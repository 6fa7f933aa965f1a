//! From a dnstap frame to an observation: what every event goes through. No IO, no lock, and no allocation for an event
//! that is not wanted.

use std::{net::IpAddr, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns, dnstap,
};
use runtime::clock::{Clock, Timestamp};
use smallvec::SmallVec;

use super::metrics::{Counts, Outcome};
use crate::{guards::Guards, names::NameIndex, observation::Observation};

/// Decodes a data frame and holds it against the wanted names. Whatever comes of it is counted.
pub fn observe(
    frame: &[u8],
    names: &NameIndex,
    guards: &Guards,
    clock: &Clock,
    counts: &mut Counts,
) -> Option<Observation> {
    match judge(frame, names, guards, clock, counts) {
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

fn judge(
    frame: &[u8],
    names: &NameIndex,
    guards: &Guards,
    clock: &Clock,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let event = dnstap::Event::parse(frame).map_err(|_| Outcome::BadEvent)?;
    if event.kind != dnstap::MessageKind::ClientResponse {
        return Err(Outcome::OtherKind);
    }
    let message = event.response_message.ok_or(Outcome::NoMessage)?;
    let response = dns::Response::parse(message).map_err(|_| Outcome::BadMessage)?;
    if !response.is_response() || response.opcode() != dns::OPCODE_QUERY {
        return Err(Outcome::BadMessage);
    }
    if response.rcode() != dns::RCODE_NOERROR {
        return Err(Outcome::Failure);
    }
    let question = response.question();
    let family = match (question.qclass, question.qtype) {
        (dns::CLASS_IN, dns::TYPE_A) => Family::V4,
        (dns::CLASS_IN, dns::TYPE_AAAA) => Family::V6,
        _ => return Err(Outcome::OtherType),
    };
    if !names.wants(&question.name) {
        return Err(Outcome::NotWanted);
    }
    let name = DnsName::try_from(&question.name).map_err(|_| Outcome::BadName)?;
    let mut addresses: SmallVec<[(IpAddr, u32); 4]> = SmallVec::new();
    let mut refused = 0_usize;
    response
        .addresses(|address, ttl| match guards.admit(address) {
            Ok(address) => addresses.push((address, ttl)),
            Err(reason) => {
                refused += 1;
                counts.refuse(reason);
            }
        })
        .map_err(|_| Outcome::BadMessage)?;
    if addresses.is_empty() {
        return Err(if refused > 0 {
            Outcome::Refused
        } else {
            Outcome::NoAddress
        });
    }
    Ok(Observation {
        name,
        family,
        addresses,
        at: clock.now(),
        answered_at: event.response_time.and_then(timestamp),
        client: event.query_address,
    })
}

/// A dnstap time: seconds and nanoseconds since the Unix epoch.
fn timestamp(time: dnstap::Timestamp) -> Option<Timestamp> {
    let seconds = i64::try_from(time.seconds).ok()?.checked_mul(1000)?;
    Some(Timestamp::from_millis(seconds) + Duration::from_nanos(time.nanoseconds.into()))
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
pub(super) mod tests;

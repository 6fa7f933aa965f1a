//! From a dnstap frame to an observation: what every event goes through. No IO, and no allocation for an event that is neither
//! wanted nor remembered.

use std::{hint::black_box, net::IpAddr, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns, dnstap,
};
use runtime::clock::{Clock, Timestamp};
use smallvec::SmallVec;

use super::{
    lateness::Lateness,
    metrics::{Counts, Outcome},
    repeats::{Mark, Repeats},
    secret::Secrets,
};
use crate::{
    guards::Guards,
    names::{Match, NameIndex},
    new_names::NewNames,
    observation::{Observation, Source},
    remember::{self, Remembered},
    resolve::{Addresses, OwnQueries, QueryOrigin},
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
    /// The look-ups of all collectors, which the DNS server reports like any client's.
    pub own: &'a OwnQueries,
    /// What an event must show in `extra`, if anything.
    pub secrets: Option<&'a Secrets>,
    /// Which new names under wildcards are taken in.
    pub new_names: &'a NewNames,
}

/// The past of a stream, as far as its next events depend on it.
#[derive(Debug, Default)]
pub struct StreamHistory {
    repeats: Repeats,
    lateness: Lateness,
}

impl StreamHistory {
    /// For a stream, whose repeated answers are left out. The [default](Self::default) takes each.
    pub(super) fn of_stream() -> Self {
        Self {
            repeats: Repeats::of_stream(),
            ..Self::default()
        }
    }

    /// When an answer that is read `at` a time was given, by the clock of its receipt.
    fn given(&mut self, answered_at: Option<Timestamp>, at: Timestamp) -> Timestamp {
        answered_at.map_or(at, |answered_at| self.lateness.given(answered_at, at))
    }
}

/// Addresses that are taken from one answer, as many as a name may have. A message has room for 4,000, and what waits for the
/// owner must be bounded in bytes too.
pub const MAX_ADDRESSES: usize = 1000;

/// Names that are looked for at once.
const AT_ONCE: usize = 16;

/// Answers whose names are still to be looked for. They are looked for together: in a large index each name that is wanted waits
/// for memory several times, and so these waits overlap.
#[derive(Debug, Default)]
pub struct Batch<'a>(SmallVec<[Asked<'a>; AT_ONCE]>);

#[derive(Debug)]
struct Asked<'a> {
    event: dnstap::ClientResponse<'a>,
    response: dns::Response<'a>,
    family: Family,
    hashes: dns::Hashes,
}

impl<'a> Batch<'a> {
    /// Decodes a data frame. Whatever comes of it is counted, now or by [`Batch::take`]. Returns whether that must be called before
    /// the next frame.
    #[inline]
    pub fn add(&mut self, frame: &'a [u8], context: Context<'_>, counts: &mut Counts) -> bool {
        let judged = match dnstap::ClientResponse::parse_usual(frame) {
            Some(Some(event)) => judge(event, context),
            Some(None) => Err(Outcome::OtherKind),
            None => judge_unusual(frame, context),
        };
        match judged {
            Ok(asked) => {
                self.0.push(asked);
                self.0.len() >= AT_ONCE
            }
            Err(outcome) => {
                counts.add(outcome);
                false
            }
        }
    }

    /// Holds what was added against the wanted names, in its order. What the stream just said already is left out.
    pub fn take(
        &mut self,
        context: Context<'_>,
        history: &mut StreamHistory,
        counts: &mut Counts,
        observations: &mut Vec<Observation>,
    ) {
        let names = context.names;
        let glances: SmallVec<[_; AT_ONCE]> =
            self.0.iter().map(|it| names.glance(it.hashes)).collect();
        // What is read of each name here is there when it is compared.
        let first = |name: &DnsName| name.as_str().as_bytes().first().copied();
        let read = glances.iter().flatten().filter_map(|name| first(name));
        black_box(read.fold(0, |sum: u8, byte| sum.wrapping_add(byte)));
        for asked in self.0.drain(..) {
            let name = asked.response.question().name;
            let judged = match names.find_hashed(name, asked.hashes) {
                Some(found) => take(found, asked, context, history, counts),
                None => {
                    if context.remembered.is_enabled() {
                        remember(asked, context, history);
                    }
                    Err(Outcome::NotWanted)
                }
            };
            counts.add(match judged {
                Ok(observation) => {
                    observations.push(observation);
                    Outcome::Observed
                }
                Err(outcome) => outcome,
            });
        }
    }
}

/// One data frame by itself. Whatever comes of it is counted.
pub fn observe(frame: &[u8], context: Context<'_>, counts: &mut Counts) -> Option<Observation> {
    let (mut batch, mut observations) = (Batch::default(), Vec::new());
    batch.add(frame, context, counts);
    batch.take(
        context,
        &mut StreamHistory::default(),
        counts,
        &mut observations,
    );
    observations.pop()
}

/// The same for what no CoreDNS sent.
#[cold]
#[inline(never)]
fn judge_unusual<'a>(frame: &'a [u8], context: Context<'_>) -> Result<Asked<'a>, Outcome> {
    let event = dnstap::ClientResponse::parse(frame).map_err(|_| Outcome::BadEvent)?;
    judge(event.ok_or(Outcome::OtherKind)?, context)
}

// In line, and what few events come to is out of line and takes what it needs by value: so all of this is done in registers.

#[inline(always)]
fn judge<'a>(
    event: dnstap::ClientResponse<'a>,
    context: Context<'_>,
) -> Result<Asked<'a>, Outcome> {
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
    let hashes = context.names.hashes(question.name);
    Ok(Asked {
        event,
        response,
        family,
        hashes,
    })
}

/// The observation that an answer for a wanted name is.
#[inline(never)]
fn take(
    found: Match<'_>,
    asked: Asked<'_>,
    context: Context<'_>,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let Asked {
        event,
        response,
        family,
        ..
    } = asked;
    let Context { guards, clock, .. } = context;
    let client = client(event, context)?;
    let (at, answered_at) = (clock.now(), event.time().and_then(timestamp));
    let message = event.message.unwrap_or_default();
    // Without a client's address the collector cannot tell a repeat from another client's answer.
    let mark = client.map(|_| Mark::new(message, answered_at, at, context.names));
    if mark.is_some_and(|mark| history.repeats.has(mark)) {
        return Err(Outcome::Repeated);
    }
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
                refused = Some((address, reason));
                counts.refuse(reason);
            }
        })
        .map_err(|_| Outcome::BadMessage)?;
    if let Some((address, reason)) = refused {
        counts.rebound(&name, address, reason);
    }
    if addresses.is_empty() {
        return Err(if refused.is_some() {
            Outcome::Refused
        } else {
            Outcome::NoAddress
        });
    }
    if let (Match::Wildcard, Some(client)) = (found, client)
        && !context.new_names.admit(&name, family, client, at)
    {
        return Err(Outcome::NewName);
    }
    // One with refused addresses is told of each time.
    if let (Some(mark), None) = (mark, refused) {
        history.repeats.keep(mark);
    }
    Ok(Observation {
        name,
        family,
        addresses,
        at,
        answered_at,
        given: history.given(answered_at, at),
        client,
        truncated: response.truncated(),
        source: Source::STREAM,
    })
}

/// Keeps the answer for a rule that is still to come.
fn remember(asked: Asked<'_>, context: Context<'_>, history: &mut StreamHistory) {
    let question = asked.response.question();
    // Not when it was read: after a pause answers of many seconds are read in one.
    let answered_at = asked.event.time().and_then(timestamp);
    let given = history.given(answered_at, context.clock.now());
    let message = asked.event.message.unwrap_or_default();
    let is_new = context
        .remembered
        .is_new(question.name, asked.family, message, given);
    if let Some(mark) = is_new {
        remember_new(asked, mark, given, context);
    }
}

#[inline(never)]
fn remember_new(asked: Asked<'_>, mark: remember::Mark, at: Timestamp, context: Context<'_>) {
    let Asked {
        event,
        response,
        family,
        ..
    } = asked;
    let Ok(client) = client(event, context) else {
        return;
    };
    let mut addresses = SmallVec::<[(IpAddr, u32); remember::MAX_ADDRESSES]>::new();
    let read = response.addresses(|address, ttl| {
        if let Ok(address) = context.guards.admit(address)
            && addresses.len() < remember::MAX_ADDRESSES
        {
            addresses.push((address, ttl));
        }
    });
    if read.is_ok() && !addresses.is_empty() {
        let answer = remember::Answer {
            name: &response.question().name.lower(),
            family,
            addresses: &addresses,
            at,
            client,
        };
        context.remembered.keep_marked(mark, &answer);
    }
}

/// The address of the client, if the event has one. Queries of collectors are no client's.
fn client(
    event: dnstap::ClientResponse<'_>,
    context: Context<'_>,
) -> Result<Option<IpAddr>, Outcome> {
    match context.own.origin(event.client(), event.port()) {
        QueryOrigin::Collector => Err(Outcome::Collector),
        QueryOrigin::Client(address) => Ok(Some(address)),
        QueryOrigin::Unknown => Ok(None),
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

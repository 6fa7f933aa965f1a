//! From a dnstap frame to an observation: the path of every event. It does no IO, and allocates
//! only for events that are wanted or cached.

use std::{net::IpAddr, time::Duration};

use prost::Message;
use proto::{
    api::{DnsName, Family},
    dns, dnstap,
};
use runtime::clock::{Clock, Timestamp};
use smallvec::SmallVec;

use crate::matching::{
    answer_cache::{self, AnswerCache},
    guards::Guards,
    index::{Match, NameIndex},
    query_origin::OwnQueries,
};
use crate::{
    listen::{
        metrics::{Counts, Outcome},
        secret::Secrets,
    },
    matching::dedup::{AnswerHash, Repeats},
};
use names::{Addresses, Observation, Provenance};

/// The state that events are matched against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub names: &'a NameIndex,
    /// Refuses addresses that are never programmed.
    pub guards: &'a Guards,
    /// The clock for times of receipt.
    pub clock: &'a Clock,
    /// The cache for answers of names that no rule wants yet.
    pub remembered: &'a AnswerCache,
    /// The look-ups of all collectors, which the DNS server reports like any client's.
    pub own: &'a OwnQueries,
    /// The secrets of which every event must show one in `extra`.
    pub secrets: Option<&'a Secrets>,
}

/// The past of a stream that its next events depend on.
#[derive(Debug)]
pub struct StreamHistory {
    /// The source of the stream's observations.
    pub(crate) source: Provenance,
    dedup: Repeats,
}

impl Default for StreamHistory {
    /// For events without a known peer.
    fn default() -> Self {
        Self {
            source: Provenance::STREAM,
            dedup: Repeats::default(),
        }
    }
}

impl StreamHistory {
    /// For a stream: repeated answers are left out. The [default](Self::default) keeps them.
    pub(crate) fn of_stream(source: Provenance) -> Self {
        Self {
            source,
            dedup: Repeats::of_stream(),
        }
    }
}

/// The longest time from an answer to its receipt. The DNS server's clock is wrong if it shows more.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The time from which the TTLs of an answer count: the server's time of the answer, if that is
/// plausible for its time of receipt, or else the time of receipt.
fn counts_from(answered_at: Option<Timestamp>, at: Timestamp) -> Timestamp {
    let is_plausible = |it: &Timestamp| *it <= at && at.since(*it) <= LONGEST_DELAY;
    answered_at.filter(is_plausible).unwrap_or(at)
}

/// The most addresses taken from one answer, as many as a name may have. A message has room for
/// 4,000, but the memory of the queue must be bounded.
pub const MAX_ADDRESSES: usize = 1000;

/// A successful answer to an A or AAAA query.
#[derive(Debug)]
struct AddressAnswer<'a> {
    event: dnstap::ClientResponse<'a>,
    response: dns::Response<'a>,
    family: Family,
}

/// The observation of a data frame, if it is one. Counts the outcome.
#[inline]
pub fn observe(
    frame: &[u8],
    context: Context<'_>,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Option<Observation> {
    let observed = match dnstap::ClientResponse::parse_usual(frame) {
        Some(Some(event)) => {
            judge(event, context).and_then(|asked| take(asked, context, history, counts))
        }
        Some(None) => Err(Outcome::OtherKind),
        None => observe_unusual(frame, context, history, counts),
    };
    match observed {
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

/// [`observe`] for an event that no CoreDNS sends; out of line.
#[cold]
#[inline(never)]
fn observe_unusual(
    frame: &[u8],
    context: Context<'_>,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let event = dnstap::pb::Dnstap::decode(frame).map_err(|_| Outcome::BadEvent)?;
    let event = dnstap::ClientResponse::of(&event).ok_or(Outcome::OtherKind)?;
    take(judge(event, context)?, context, history, counts)
}

// The common path is inlined. Rare paths are functions of their own and take arguments by value, so
// the common one stays in registers.

#[inline(always)]
fn judge<'a>(
    event: dnstap::ClientResponse<'a>,
    context: Context<'_>,
) -> Result<AddressAnswer<'a>, Outcome> {
    if context
        .secrets
        .is_some_and(|secrets| !secrets.admit(event.extra))
    {
        return Err(Outcome::WrongSecret);
    }
    let message = event.message.ok_or(Outcome::NoMessage)?;
    // Most responses are failures: they end before their question is decoded.
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
    Ok(AddressAnswer {
        event,
        response,
        family,
    })
}

#[inline(always)]
fn take(
    asked: AddressAnswer<'_>,
    context: Context<'_>,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    if let Some(found) = context.names.find(asked.response.question().name) {
        return take_wanted(found, asked, context, history, counts);
    }
    if context.remembered.is_enabled() {
        remember(asked, context);
    }
    Err(Outcome::NotWanted)
}

/// The observation of an answer for a wanted name.
#[inline(never)]
fn take_wanted(
    found: Match<'_>,
    asked: AddressAnswer<'_>,
    context: Context<'_>,
    history: &mut StreamHistory,
    counts: &mut Counts,
) -> Result<Observation, Outcome> {
    let AddressAnswer {
        event,
        response,
        family,
    } = asked;
    let Context { guards, clock, .. } = context;
    let client = client(event, context)?;
    let (at, answered_at) = (clock.now(), event.time().and_then(timestamp));
    let message = event.message.unwrap_or_default();
    // Without the client's address, a repeat looks like another client's answer.
    let mark = client.map(|_| AnswerHash::new(message, answered_at, at, context.names));
    if mark.is_some_and(|mark| history.dedup.has(mark)) {
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
    // An answer with refused addresses is reported each time.
    if let (Some(mark), None) = (mark, refused) {
        history.dedup.keep(mark);
    }
    Ok(Observation {
        name,
        family,
        addresses,
        at,
        answered_at,
        given: counts_from(answered_at, at),
        client,
        truncated: response.truncated(),
        source: history.source,
    })
}

/// Caches the answer for a later rule.
fn remember(asked: AddressAnswer<'_>, context: Context<'_>) {
    let question = asked.response.question();
    // Not the time of reading: after a pause, one read has answers of many seconds.
    let answered_at = asked.event.time().and_then(timestamp);
    let given = counts_from(answered_at, context.clock.now());
    let message = asked.event.message.unwrap_or_default();
    let is_new = context
        .remembered
        .is_new(question.name, asked.family, message, given);
    if let Some(mark) = is_new {
        remember_new(asked, mark, given, context);
    }
}

#[inline(never)]
fn remember_new(
    asked: AddressAnswer<'_>,
    mark: answer_cache::CacheMark,
    at: Timestamp,
    context: Context<'_>,
) {
    let AddressAnswer {
        event,
        response,
        family,
    } = asked;
    let Ok(client) = client(event, context) else {
        return;
    };
    let mut addresses = SmallVec::<[(IpAddr, u32); answer_cache::MAX_ADDRESSES]>::new();
    let read = response.addresses(|address, ttl| {
        if let Ok(address) = context.guards.admit(address)
            && addresses.len() < answer_cache::MAX_ADDRESSES
        {
            addresses.push((address, ttl));
        }
    });
    if read.is_ok() && !addresses.is_empty() {
        let answer = answer_cache::Answer {
            name: &response.question().name.lower(),
            family,
            addresses: &addresses,
            at,
            client,
        };
        context.remembered.keep_marked(mark, &answer);
    }
}

/// The address of the client, if the event has one. The collectors' own queries have no client.
fn client(
    event: dnstap::ClientResponse<'_>,
    context: Context<'_>,
) -> Result<Option<IpAddr>, Outcome> {
    match event.client() {
        Some(address) if context.own.contains(address) => Err(Outcome::Collector),
        client => Ok(client),
    }
}

/// A dnstap time: seconds and nanoseconds since the Unix epoch.
fn timestamp(time: dnstap::Timestamp) -> Option<Timestamp> {
    let seconds = i64::try_from(time.seconds).ok()?.checked_mul(1000)?;
    Some(Timestamp::from_millis(seconds) + Duration::from_nanos(time.nanoseconds.into()))
}

#[cfg(test)]
pub(crate) mod tests;

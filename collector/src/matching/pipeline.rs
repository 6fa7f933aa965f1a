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

use crate::{
    listen::{
        metrics::{Counts, Outcome},
        secret::Secrets,
    },
    matching::{
        answer_cache::{self, AnswerCache},
        index::{Match, NameIndex},
        query_origin::OwnQueries,
    },
};
use names::{Addresses, Observation, Provenance};

/// The state that events are matched against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub names: &'a NameIndex,
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
    recent: RecentAnswers,
}

impl Default for StreamHistory {
    /// For events without a known peer.
    fn default() -> Self {
        Self {
            source: Provenance::STREAM,
            recent: RecentAnswers::default(),
        }
    }
}

impl StreamHistory {
    /// For a stream: repeated answers are left out. The [default](Self::default) keeps them.
    pub(crate) fn of_stream(source: Provenance) -> Self {
        Self {
            source,
            recent: RecentAnswers::new(),
        }
    }
}

/// Equal answers within one span of milliseconds count once. The span is of two clocks: the time of
/// receipt, and the DNS server's. After a pause the collector receives answers of several seconds
/// at once. A DNS server may send no time, or always the same one.
const REPEAT_SPAN: i64 = 100;

/// The slots of the table of answers.
const RECENT_ANSWERS: usize = 1 << 10;

/// The longest time from an answer to its receipt. The DNS server's clock is wrong if it shows more.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The time from which the TTLs of an answer count: the server's time of the answer, if that is
/// plausible for its time of receipt, or else the time of receipt.
fn counts_from(server_time: Option<Timestamp>, at: Timestamp) -> Timestamp {
    let is_plausible = |time: &Timestamp| *time <= at && at.since(*time) <= LONGEST_DELAY;
    server_time.filter(is_plausible).unwrap_or(at)
}

/// The most addresses taken from one answer, as many as a name may have. A message has room for
/// 4,000, but the memory of the queue must be bounded.
pub const MAX_ADDRESSES: usize = 1000;

/// A successful answer to an A or AAAA query.
#[derive(Debug)]
pub(crate) struct AddressAnswer<'a> {
    event: dnstap::ClientResponse<'a>,
    pub(crate) response: dns::Response<'a>,
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
            classify(event, context).and_then(|answer| match_name(answer, context, history))
        }
        Some(None) => Err(Outcome::OtherKind),
        None => observe_unusual(frame, context, history),
    };
    match observed {
        Ok(observation) => {
            counts.add(match observation.truncated {
                true => Outcome::Partial,
                false => Outcome::Observed,
            });
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
) -> Result<Observation, Outcome> {
    let event = dnstap::pb::Dnstap::decode(frame).map_err(|_| Outcome::BadEvent)?;
    let event = dnstap::ClientResponse::of(&event).ok_or(Outcome::OtherKind)?;
    match_name(classify(event, context)?, context, history)
}

// The common path is inlined. Rare paths are functions of their own and take arguments by value, so
// the common one stays in registers.

#[inline(always)]
fn classify<'a>(
    event: dnstap::ClientResponse<'a>,
    context: Context<'_>,
) -> Result<AddressAnswer<'a>, Outcome> {
    if context
        .secrets
        .is_some_and(|secrets| !secrets.admit(event.extra))
    {
        return Err(Outcome::WrongSecret);
    }
    address_answer(event)
}

/// The event, if it is a successful answer to an A or AAAA query.
#[inline(always)]
pub(crate) fn address_answer(
    event: dnstap::ClientResponse<'_>,
) -> Result<AddressAnswer<'_>, Outcome> {
    let message = event.message.ok_or(Outcome::NoMessage)?;
    // Most responses are failures: they end before their question is decoded.
    let header = dns::Header::parse(message).map_err(|_| Outcome::BadMessage)?;
    if !header.is_response() {
        return Err(Outcome::BadMessage);
    }
    if header.opcode() != dns::OPCODE_QUERY {
        return Err(Outcome::OtherType);
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
fn match_name(
    answer: AddressAnswer<'_>,
    context: Context<'_>,
    history: &mut StreamHistory,
) -> Result<Observation, Outcome> {
    if let Some(found) = context.names.find(answer.response.question().name) {
        return extract(found, answer, context, history);
    }
    if context.remembered.is_enabled() {
        cache(answer, context);
    }
    Err(Outcome::NotWanted)
}

/// The observation of a reply that this collector forwards, if it has addresses of a wanted name. `own` has no effect: a
/// reply names no client.
pub(crate) fn observe_reply(
    message: &[u8],
    names: &NameIndex,
    clock: &Clock,
    own: &OwnQueries,
) -> Option<Observation> {
    let context = Context {
        names,
        clock,
        remembered: &AnswerCache::default(),
        own,
        secrets: None,
    };
    let mut history = StreamHistory {
        source: Provenance::HOLD,
        ..StreamHistory::default()
    };
    let answer = address_answer(dnstap::ClientResponse::of_message(message)).ok()?;
    match_name(answer, context, &mut history).ok()
}

/// The observation of an answer for a wanted name.
#[inline(never)]
fn extract(
    found: Match<'_>,
    answer: AddressAnswer<'_>,
    context: Context<'_>,
    history: &mut StreamHistory,
) -> Result<Observation, Outcome> {
    let AddressAnswer {
        event,
        response,
        family,
    } = answer;
    let client = client(event, context)?;
    let at = context.clock.now();
    let server_time = event.time().and_then(timestamp);
    let message = event.message.unwrap_or_default();
    // Without the client's address, a repeat looks like another client's answer.
    let hash = client.map(|_| AnswerHash::new(message, server_time, at, context.names));
    if hash.is_some_and(|hash| history.recent.contains(hash)) {
        return Err(Outcome::Repeated);
    }
    let name = match found {
        Match::Exact(name) => name.clone(),
        // The API can store no name such as `a_b.example.com`: its addresses stand in the wildcard's own entry.
        Match::Wildcard(wildcard) => DnsName::try_from(&response.question().name.lower())
            .unwrap_or_else(|_| wildcard.clone()),
    };
    let mut addresses = Addresses::new();
    let read = response.addresses(|address, ttl| {
        if addresses.len() < MAX_ADDRESSES {
            addresses.push((address, ttl));
        }
    });
    if addresses.is_empty() {
        return Err(match read {
            Ok(()) => Outcome::NoAddress,
            Err(dns::Error::Aliases { .. } | dns::Error::Loop) => Outcome::BadChain,
            Err(_) => Outcome::BadMessage,
        });
    }
    if let Some(hash) = hash {
        history.recent.insert(hash);
    }
    Ok(Observation {
        name,
        family,
        addresses,
        at,
        server_time,
        answered_at: counts_from(server_time, at),
        client,
        truncated: response.truncated() || read.is_err(),
        source: history.source,
    })
}

/// Caches the answer for a later rule.
fn cache(answer: AddressAnswer<'_>, context: Context<'_>) {
    let question = answer.response.question();
    // Not the time of reading: after a pause, one read has answers of many seconds.
    let server_time = answer.event.time().and_then(timestamp);
    let answered_at = counts_from(server_time, context.clock.now());
    let message = answer.event.message.unwrap_or_default();
    let is_new = context
        .remembered
        .is_new(question.name, answer.family, message, answered_at);
    if let Some(mark) = is_new {
        cache_new(answer, mark, answered_at, context);
    }
}

#[inline(never)]
fn cache_new(
    answer: AddressAnswer<'_>,
    mark: answer_cache::CacheMark,
    at: Timestamp,
    context: Context<'_>,
) {
    let AddressAnswer {
        event,
        response,
        family,
    } = answer;
    let Ok(client) = client(event, context) else {
        return;
    };
    let mut addresses = SmallVec::<[(IpAddr, u32); answer_cache::MAX_ADDRESSES]>::new();
    // What is good in the message counts.
    let _part = response.addresses(|address, ttl| {
        if addresses.len() < answer_cache::MAX_ADDRESSES {
            addresses.push((address, ttl));
        }
    });
    if !addresses.is_empty() {
        let cached = answer_cache::Answer {
            name: &response.question().name.lower(),
            family,
            addresses: &addresses,
            at,
            client,
        };
        context.remembered.insert(&cached, Some(mark));
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

/// Hashes of the latest answers of one stream to clients. Clients query a name in use again and again. Each repeat would pass
/// through the queue and wake the publisher, only to move expiry times by milliseconds. A hash collision evicts an answer, whose
/// next repeat then passes again. The [default](Self::default) has no slots.
#[derive(Debug, Default)]
struct RecentAnswers(Box<[u64]>);

/// Identifies an answer within its span.
#[derive(Clone, Copy, Debug)]
struct AnswerHash(u64);

impl AnswerHash {
    /// Hashes a message, the time of the answer and the time of receipt. The hash differs between
    /// versions of the index: an answer from before a name was wanted is no repeat.
    fn new(
        message: &[u8],
        server_time: Option<Timestamp>,
        at: Timestamp,
        names: &NameIndex,
    ) -> Self {
        let message = dns::without_identifier(message);
        let span = |at: Timestamp| at.as_millis().div_euclid(REPEAT_SPAN);
        // 0 marks an empty slot.
        Self(names.hash((message, server_time.map(span), span(at))) | 1)
    }
}

impl RecentAnswers {
    /// A table for one stream: 8 KiB.
    fn new() -> Self {
        Self(vec![0; RECENT_ANSWERS].into())
    }

    fn contains(&self, hash: AnswerHash) -> bool {
        self.0.get(self.slot(hash)) == Some(&hash.0)
    }

    fn insert(&mut self, hash: AnswerHash) {
        let slot = self.slot(hash);
        if let Some(known) = self.0.get_mut(slot) {
            *known = hash.0;
        }
    }

    /// The upper bits, scaled to the number of slots.
    fn slot(&self, AnswerHash(hash): AnswerHash) -> usize {
        ((u128::from(hash) * self.0.len() as u128) >> u64::BITS) as usize
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What the answers to clients and the changes of the sets say together.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::Duration,
};

use tests::{times::Times, transaction_log::Update};
use tokio::time::Instant;

use crate::dns_load::Answer;

/// When an address was in a set. No address is in two.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    to: Option<Instant>,
}

/// When addresses were in their sets.
#[derive(Debug, Default)]
pub(crate) struct Sets(HashMap<IpAddr, Vec<Span>>);

impl Sets {
    pub(crate) fn new(updates: &[Update]) -> Self {
        let mut sets = Self::default();
        let mut rows = BTreeMap::new();
        for update in updates {
            for (uuid, row) in &update.rows {
                let new = row
                    .as_ref()
                    .map(|row| row.addresses.clone())
                    .unwrap_or_default();
                let old = rows.insert(uuid, new.clone()).unwrap_or_default();
                for address in new.difference(&old) {
                    let spans = sets.0.entry(address.parse().unwrap()).or_default();
                    spans.push(Span {
                        from: update.at,
                        to: None,
                    });
                }
                for address in old.difference(&new) {
                    let spans = sets.0.entry(address.parse().unwrap()).or_default();
                    spans.last_mut().unwrap().to = Some(update.at);
                }
            }
        }
        sets
    }

    fn spans(&self, address: IpAddr) -> &[Span] {
        self.0.get(&address).map(Vec::as_slice).unwrap_or_default()
    }

    fn has(&self, address: IpAddr, at: Instant) -> bool {
        let spans = self.spans(address);
        spans
            .iter()
            .any(|it| it.from <= at && it.to.is_none_or(|to| to > at))
    }

    /// When an address that is not there comes.
    fn comes(&self, address: IpAddr, after: Instant) -> Option<Instant> {
        let spans = self.spans(address);
        spans.iter().map(|it| it.from).find(|from| *from > after)
    }
}

/// What clients were told of an address.
#[derive(Clone, Copy, Debug)]
struct Told {
    first: Instant,
    /// The end of the last TTL.
    until: Instant,
    /// The first answer at whose time it was in no set.
    missed: Option<Instant>,
}

/// The figures of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// From an address's first answer to its row; 0 if it was there before. An address that never came counts until its TTL is over.
    pub(crate) to_row: Times,
    pub(crate) answers: usize,
    /// The answers with an address that was in no set at that time.
    pub(crate) incomplete: usize,
    /// From the first of these answers until the address came, or its TTL was over.
    pub(crate) missing: Times,
    /// How long addresses stayed after their TTL.
    pub(crate) stayed: Times,
    /// From a client's query to its answer.
    pub(crate) latency: Times,
}

impl Figures {
    /// `end` is the last time that the updates cover.
    pub(crate) fn new(answers: &[Answer], sets: &Sets, end: Instant) -> Self {
        let mut figures = Self {
            answers: answers.len(),
            ..Self::default()
        };
        let mut answers: Vec<&Answer> = answers.iter().collect();
        answers.sort_by_key(|answer| answer.at);
        let mut told: HashMap<IpAddr, Told> = HashMap::new();
        for answer in answers {
            figures.latency.push(answer.latency);
            let mut is_complete = true;
            for address in &answer.addresses {
                let told = told.entry(*address).or_insert(Told {
                    first: answer.at,
                    until: answer.until,
                    missed: None,
                });
                told.until = told.until.max(answer.until);
                if !sets.has(*address, answer.at) {
                    is_complete = false;
                    told.missed.get_or_insert(answer.at);
                }
            }
            figures.incomplete += usize::from(!is_complete);
        }
        for (address, told) in told {
            figures.add(address, told, sets, end);
        }
        figures
    }

    fn add(&mut self, address: IpAddr, told: Told, sets: &Sets, end: Instant) {
        let until_there = |since: Instant| {
            let comes = sets.comes(address, since).unwrap_or(end);
            comes.min(told.until).saturating_duration_since(since)
        };
        self.to_row.push(match sets.has(address, told.first) {
            true => Duration::ZERO,
            false => until_there(told.first),
        });
        self.missing.extend(told.missed.map(until_there));
        if let Some(span) = sets.spans(address).last()
            && told.until < end
        {
            let left = span.to.unwrap_or(end);
            self.stayed.push(left.saturating_duration_since(told.until));
        }
    }

    /// In percent of the answers.
    pub(crate) fn incomplete_share(&self) -> f64 {
        self.incomplete as f64 * 100.0 / self.answers as f64
    }
}

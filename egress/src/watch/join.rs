//! Joins the new addresses of all programs by rule and address. There is no IO here, and no clock.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::Duration,
};

use proto::{
    facts::{NameAddress, RowAddress},
    timestamp::Timestamp,
};
use tokio::time::Instant;

use super::line::{Legs, Line, millis};
use crate::pattern::NamePattern;

/// How long a part may be missing before the line is printed without it.
const MISSING_AFTER: Duration = Duration::from_secs(5);

/// The most that the clocks of two machines differ. Times that differ by more are of another arrival of the address.
const CLOCK_DIFFERENCE_MILLIS: i64 = 10_000;

/// How long an address is remembered that no program lists any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The names to print.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) name: Option<NamePattern>,
    pub(super) namespace: Option<String>,
}

impl Selection {
    fn has(&self, address: &NameAddress) -> bool {
        let matches = |it: &NamePattern| it.matches(&address.name) || it.matches(&address.rule);
        let namespace = self.namespace.as_ref();
        self.name.as_ref().is_none_or(matches)
            && namespace.is_none_or(|it| address.namespaces.contains(it))
    }
}

/// The answers of the programs to one poll.
#[derive(Clone, Debug, Default)]
pub(super) struct Polled {
    /// The time of each answer, and its addresses.
    pub(super) collectors: Vec<(Timestamp, Vec<NameAddress>)>,
    /// Of the ovn-writers that write.
    pub(super) writers: BTreeMap<String, (Timestamp, Vec<RowAddress>)>,
}

/// A rule's name, and an address of it.
type Key = (String, IpAddr);

#[derive(Debug)]
struct Known {
    read_at: Timestamp,
    first_polled: Instant,
    last_polled: Instant,
    is_printed: bool,
}

/// The addresses that the programs list.
#[derive(Debug)]
pub(super) struct Joiner {
    selection: Selection,
    began: Instant,
    known: HashMap<Key, Known>,
}

impl Joiner {
    pub(super) fn new(selection: Selection, began: Instant) -> Self {
        Self {
            selection,
            began,
            known: HashMap::new(),
        }
    }

    /// The addresses that are complete now, or that lack a part for too long.
    pub(super) fn join(&mut self, polled: Polled, now: Instant) -> Vec<Line> {
        let mut addresses: BTreeMap<Key, NameAddress> = BTreeMap::new();
        for answer in polled.collectors {
            for (key, address) in self.latest(answer, now, |it| {
                ((it.rule.clone(), it.address), it.read_at)
            }) {
                match addresses.get_mut(&key) {
                    Some(known) => merge(known, address),
                    None => drop(addresses.insert(key, address)),
                }
            }
        }
        let writers = polled.writers.into_iter().map(|(writer, answer)| {
            let rows = self.latest(answer, now, |it| {
                ((it.rule.clone(), it.address), it.committed_at)
            });
            (writer, rows)
        });
        let writers: BTreeMap<String, BTreeMap<Key, RowAddress>> = writers.collect();
        let mut lines = Vec::new();
        for (key, address) in addresses {
            let begins = || Known {
                read_at: address.read_at,
                first_polled: now,
                last_polled: now,
                is_printed: false,
            };
            let known = self.known.entry(key.clone()).or_insert_with(begins);
            known.last_polled = now;
            if millis(known.read_at, address.read_at) > CLOCK_DIFFERENCE_MILLIS {
                *known = begins();
            }
            if known.is_printed || !self.selection.has(&address) {
                continue;
            }
            let line = line(&key, address, &writers);
            if line.is_complete || now - known.first_polled >= MISSING_AFTER {
                known.is_printed = true;
                lines.push(line);
            }
        }
        self.known
            .retain(|_, it| now - it.last_polled < FORGOTTEN_AFTER);
        lines
    }

    /// The last item of each address since the command began, by the clock of the program.
    fn latest<T>(
        &self,
        (answered, items): (Timestamp, Vec<T>),
        now: Instant,
        key: impl Fn(&T) -> (Key, Timestamp),
    ) -> BTreeMap<Key, T> {
        let running = i64::try_from((now - self.began).as_millis()).unwrap_or(i64::MAX);
        let mut latest = BTreeMap::new();
        for item in items {
            let (key, at) = key(&item);
            if millis(at, answered) <= running {
                latest.insert(key, item);
            }
        }
        latest
    }
}

/// Each replica of the collector reads the same answer, and one writes.
fn merge(known: &mut NameAddress, other: NameAddress) {
    let written = [&*known, &other].into_iter().find_map(|it| {
        let at = it.status_written_at?;
        Some((at, it.object.clone()))
    });
    if other.read_at < known.read_at {
        *known = other;
    }
    if let Some((at, object)) = written {
        (known.status_written_at, known.object) = (Some(at), object);
    }
}

fn line(
    key: &Key,
    address: NameAddress,
    writers: &BTreeMap<String, BTreeMap<Key, RowAddress>>,
) -> Line {
    let mut rows = BTreeMap::new();
    let mut without_row = Vec::new();
    for (writer, of_writer) in writers {
        let row = of_writer
            .get(key)
            .filter(|row| millis(address.read_at, row.committed_at) >= -CLOCK_DIFFERENCE_MILLIS);
        match row {
            Some(row) => drop(rows.insert(writer.clone(), row.clone())),
            None => without_row.push(writer.clone()),
        }
    }
    Line {
        is_complete: address.status_written_at.is_some() && without_row.is_empty(),
        milliseconds: Legs::of(&address, &rows),
        address,
        rows,
        without_row,
    }
}

#[cfg(test)]
mod tests;

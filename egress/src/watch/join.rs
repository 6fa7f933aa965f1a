//! Joins the lines of all programs by name and address. There is no IO here, and no clock.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::IpAddr,
    time::{Duration, Instant},
};

use super::{
    lines::{AnswerLine, Line, Realized, RealizedLine, SetLine, StatusLine, Time},
    streams::{Program, StreamEvent},
    unrealized::Unrealized,
};
use crate::{pattern::NamePattern, targets::Kind};

/// The most addresses that wait for a leg; beyond it the oldest is printed as it is.
const MOST: usize = 100_000;

/// How long an address that was printed without a leg waits for it.
const LATE: Duration = Duration::from_secs(60);

/// The names to print.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) name: Option<NamePattern>,
    pub(super) namespace: Option<String>,
}

/// An address of a name, as a rule has it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Key {
    pub(super) rule: String,
    pub(super) name: String,
    pub(super) address: IpAddr,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) answered_at: Option<Time>,
    pub(super) read_at: Time,
    pub(super) seen_where: String,
    /// The sets have the address already, for another name.
    pub(super) is_known: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) object: String,
    pub(super) resource_version: String,
    pub(super) acknowledged_at: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) set: String,
    pub(super) seen_at: Option<Time>,
    pub(super) acknowledged_at: Time,
    pub(super) realized: Option<Realized>,
    /// The ovn-writer will tell when it is realized.
    pub(super) is_awaited: bool,
}

impl Row {
    /// When the rules were in; else when the database had the row.
    pub(super) fn last_time(&self) -> Time {
        let rules = self.realized.as_ref().and_then(|it| it.rules_at);
        rules.unwrap_or(self.acknowledged_at)
    }
}

/// An address to print.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) key: Key,
    pub(super) namespaces: Vec<String>,
    pub(super) answer: Option<Answer>,
    pub(super) status: Option<Status>,
    /// By ovn-writer.
    pub(super) rows: BTreeMap<String, Row>,
    /// The ovn-writers without a row.
    pub(super) without_row: Vec<String>,
    /// The ovn-writers that have not told yet when the rules are in.
    pub(super) without_rules: Vec<String>,
    /// Whether some leg is missing.
    pub(super) is_incomplete: bool,
}

#[derive(Debug)]
struct Pending {
    since: Instant,
    namespaces: Vec<String>,
    answer: Option<Answer>,
    status: Option<Status>,
    /// It was printed, without a leg or with all of them.
    is_told: bool,
    is_complete: bool,
}

/// The rows of an address of a rule's name.
#[derive(Debug)]
struct Rows {
    since: Instant,
    by_writer: BTreeMap<String, Row>,
    /// The names with an answer or a status.
    names: BTreeSet<String>,
}

impl Rows {
    fn since(now: Instant) -> Self {
        Self {
            since: now,
            by_writer: BTreeMap::new(),
            names: BTreeSet::new(),
        }
    }
}

/// The legs of the latest addresses.
#[derive(Debug)]
pub(super) struct Joiner {
    selection: Selection,
    missing_after: Duration,
    pending: HashMap<Key, Pending>,
    /// In order of arrival.
    order: VecDeque<Key>,
    rows: HashMap<(String, IpAddr), Rows>,
    unrealized: Unrealized,
    /// Addresses that may be complete now.
    changed: Vec<Key>,
    /// The connected ovn-writers that write.
    writers: BTreeMap<String, bool>,
    lost: HashMap<String, u64>,
}

impl Joiner {
    pub(super) fn new(selection: Selection, missing_after: Duration) -> Self {
        Self {
            selection,
            missing_after,
            pending: HashMap::new(),
            order: VecDeque::new(),
            rows: HashMap::new(),
            unrealized: Unrealized::default(),
            changed: Vec::new(),
            writers: BTreeMap::new(),
            lost: HashMap::new(),
        }
    }

    /// How many events, or addresses of one, were lost since the last line of the program, if any.
    pub(super) fn has_lost(&mut self, place: &str, what: &StreamEvent) -> Option<u64> {
        let lost = match what {
            StreamEvent::Line(Line::State { lost, .. }) => *lost,
            StreamEvent::Up => 0,
            StreamEvent::Line(Line::Answer(line)) => return some(line.more_addresses),
            StreamEvent::Line(Line::Status(line)) => return some(line.more_addresses),
            StreamEvent::Line(Line::Set(line)) => return some(line.more_added),
            StreamEvent::Line(Line::Realized(_) | Line::Other) | StreamEvent::Down(_) => {
                return None;
            }
        };
        let before = self.lost.insert(place.to_owned(), lost);
        some(lost.saturating_sub(before.unwrap_or(0)))
    }

    pub(super) fn take(&mut self, program: &Program, what: StreamEvent, now: Instant) {
        let place = &program.place;
        match what {
            StreamEvent::Up => {}
            StreamEvent::Down(_) => self.forget(place),
            StreamEvent::Line(Line::State { idle, .. }) => {
                if program.kind == Kind::OvnWriter {
                    self.writers.insert(place.clone(), idle.is_none());
                }
            }
            StreamEvent::Line(Line::Answer(line)) => self.answered(line, now),
            StreamEvent::Line(Line::Status(line)) => self.written(line, now),
            StreamEvent::Line(Line::Set(line)) => self.set_changed(place, line, now),
            StreamEvent::Line(Line::Realized(line)) => self.realized(place, line),
            StreamEvent::Line(Line::Other) => {}
        }
    }

    /// The program is gone: no row of it is waited for.
    pub(super) fn forget(&mut self, place: &str) {
        if self.writers.remove(place).is_some() {
            self.changed.extend(self.order.iter().cloned());
        }
        for of in self.unrealized.forget(place) {
            self.of_row(&of, place, |row| row.is_awaited = false);
        }
        self.lost.remove(place);
    }

    fn answered(&mut self, line: AnswerLine, now: Instant) {
        for address in &line.addresses {
            let key = Key {
                rule: line.rule.clone(),
                name: line.name.clone(),
                address: *address,
            };
            let answer = Answer {
                answered_at: line.answered_at,
                read_at: line.read_at,
                seen_where: line.seen_where.clone(),
                is_known: line.known_addresses.contains(address),
            };
            let Some(pending) = self.pending(key, &line.namespaces, now) else {
                continue;
            };
            // Each replica of the collector hears the same answer.
            match &pending.answer {
                Some(known) if known.read_at <= answer.read_at => {}
                _ => pending.answer = Some(answer),
            }
        }
    }

    fn written(&mut self, line: StatusLine, now: Instant) {
        for entry in line.addresses {
            let key = Key {
                rule: line.rule.clone(),
                name: entry.name,
                address: entry.address,
            };
            let Some(pending) = self.pending(key, &line.namespaces, now) else {
                continue;
            };
            pending.status.get_or_insert_with(|| Status {
                object: line.object.clone(),
                resource_version: line.resource_version.clone(),
                acknowledged_at: line.acknowledged_at,
            });
        }
    }

    fn set_changed(&mut self, place: &str, line: SetLine, now: Instant) {
        for removed in &line.removed {
            if let Ok(address) = removed.parse()
                && let Some(rows) = self.rows.get_mut(&(line.name.clone(), address))
            {
                rows.by_writer.remove(place);
            }
        }
        for address in line.added {
            let of = (line.name.clone(), address);
            if let Some(follow_up) = line.follow_up {
                self.unrealized.add(place, follow_up, of.clone(), now);
            }
            let rows = self.rows.entry(of.clone());
            let rows = rows.or_insert_with(|| Rows::since(now));
            let row = Row {
                set: line.set.clone(),
                seen_at: line.seen_at,
                acknowledged_at: line.acknowledged_at,
                realized: None,
                is_awaited: line.follow_up.is_some(),
            };
            rows.by_writer.insert(place.to_owned(), row);
            self.of_row(&of, place, |_| {});
        }
    }

    fn realized(&mut self, place: &str, line: RealizedLine) {
        for of in self.unrealized.take(place, line.follow_up) {
            let realized = Some(line.realized.clone());
            self.of_row(&of, place, |row| {
                (row.realized, row.is_awaited) = (realized, false);
            });
        }
    }

    /// Changes the row of an ovn-writer, if there is one. Its addresses may be complete then.
    fn of_row(&mut self, of: &(String, IpAddr), place: &str, change: impl FnOnce(&mut Row)) {
        let Some(rows) = self.rows.get_mut(of) else {
            return;
        };
        if let Some(row) = rows.by_writer.get_mut(place) {
            change(row);
        }
        self.changed.extend(rows.names.iter().map(|name| Key {
            rule: of.0.clone(),
            name: name.clone(),
            address: of.1,
        }));
    }

    fn pending(&mut self, key: Key, namespaces: &[String], now: Instant) -> Option<&mut Pending> {
        let Selection { name, namespace } = &self.selection;
        let matches = |it: &NamePattern| it.matches(&key.name) || it.matches(&key.rule);
        let is_selected = name.as_ref().is_none_or(matches)
            && namespace.as_ref().is_none_or(|it| namespaces.contains(it));
        if !is_selected {
            return None;
        }
        let rows = self.rows.entry((key.rule.clone(), key.address));
        let rows = rows.or_insert_with(|| Rows::since(now));
        rows.names.insert(key.name.clone());
        if !self.pending.contains_key(&key) {
            self.order.push_back(key.clone());
        }
        self.changed.push(key.clone());
        let pending = self.pending.entry(key).or_insert_with(|| Pending {
            since: now,
            namespaces: namespaces.to_vec(),
            answer: None,
            status: None,
            is_told: false,
            is_complete: false,
        });
        Some(pending)
    }

    /// The addresses that became complete.
    pub(super) fn complete(&mut self) -> Vec<Told> {
        let changed = std::mem::take(&mut self.changed);
        let told = changed.into_iter().filter_map(|key| {
            let told = self.told(&key)?;
            let pending = self.pending.get_mut(&key)?;
            if pending.is_complete || told.is_incomplete {
                return None;
            }
            (pending.is_complete, pending.is_told) = (true, true);
            Some(told)
        });
        told.collect()
    }

    /// The addresses that have waited too long for a leg.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Told> {
        let (mut told, mut kept) = (Vec::new(), VecDeque::new());
        while let Some(key) = self.order.pop_front() {
            let is_full = self.order.len() + kept.len() >= MOST;
            let Some(pending) = self.pending.get(&key) else {
                continue;
            };
            let waited = now.saturating_duration_since(pending.since);
            if waited < self.missing_after && !is_full {
                self.order.push_front(key);
                break;
            }
            if !pending.is_told {
                told.extend(self.told(&key));
            }
            // A complete one was kept until now, since each replica tells of it.
            let is_over = waited >= self.missing_after + LATE;
            match self.pending.get_mut(&key) {
                Some(pending) if !pending.is_complete && !is_over && !is_full => {
                    pending.is_told = true;
                    kept.push_back(key);
                }
                _ => self.forget_name(&key),
            }
        }
        kept.append(&mut self.order);
        self.order = kept;
        told.extend(self.rows_alone(now));
        self.unrealized
            .forget_before(now, self.missing_after + LATE);
        told
    }

    fn forget_name(&mut self, key: &Key) {
        self.pending.remove(key);
        let of = (key.rule.clone(), key.address);
        if let Some(rows) = self.rows.get_mut(&of) {
            rows.names.remove(&key.name);
            if rows.names.is_empty() {
                self.rows.remove(&of);
            }
        }
    }

    /// Rows without an answer and a status.
    fn rows_alone(&mut self, now: Instant) -> Vec<Told> {
        let Selection { name, namespace } = &self.selection;
        let is_selected =
            |rule: &str| namespace.is_none() && name.as_ref().is_none_or(|name| name.matches(rule));
        let mut told = Vec::new();
        self.rows.retain(|(rule, address), rows| {
            let waited = now.saturating_duration_since(rows.since);
            if !rows.names.is_empty() || waited < self.missing_after {
                return true;
            }
            if is_selected(rule) && !rows.by_writer.is_empty() {
                told.push(Told {
                    key: Key {
                        rule: rule.clone(),
                        name: rule.clone(),
                        address: *address,
                    },
                    namespaces: Vec::new(),
                    answer: None,
                    status: None,
                    without_rules: awaited(&rows.by_writer),
                    rows: std::mem::take(&mut rows.by_writer),
                    without_row: Vec::new(),
                    is_incomplete: true,
                });
            }
            false
        });
        told
    }

    fn told(&self, key: &Key) -> Option<Told> {
        let pending = self.pending.get(key)?;
        let rows = self.rows.get(&(key.rule.clone(), key.address));
        // Rows of a known address are of another name.
        let is_known = pending.answer.as_ref().is_some_and(|it| it.is_known);
        let rows = rows.filter(|_| !is_known);
        let rows = rows.map_or_else(BTreeMap::new, |rows| rows.by_writer.clone());
        let writing = self.writers.iter().filter(|(_, writes)| **writes);
        let without_row: Vec<String> = writing
            .filter(|(place, _)| !is_known && !rows.contains_key(*place))
            .map(|(place, _)| place.clone())
            .collect();
        let without_rules = awaited(&rows);
        let (answer, status) = (pending.answer.clone(), pending.status.clone());
        let is_open = !without_row.is_empty() || !without_rules.is_empty();
        Some(Told {
            key: key.clone(),
            namespaces: pending.namespaces.clone(),
            is_incomplete: answer.is_none() || status.is_none() || is_open,
            answer,
            status,
            rows,
            without_row,
            without_rules,
        })
    }
}

/// The ovn-writers that will tell when their row is realized.
fn awaited(rows: &BTreeMap<String, Row>) -> Vec<String> {
    let awaited = rows.iter().filter(|(_, row)| row.is_awaited);
    awaited.map(|(place, _)| place.clone()).collect()
}

fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests;

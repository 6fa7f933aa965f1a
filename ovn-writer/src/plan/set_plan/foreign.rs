//! Plans for changes of other clients. If ovn-kubernetes writes sets from the same objects, the store's event may
//! arrive later than its change.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use smol_str::SmolStr;
use uuid::Uuid;

use super::{Planner, SetRow, Trigger, Verdict};
use crate::{
    address_set::{Identity, NameForm, address_in},
    desired::Wanted,
    plan::change::Change,
};

impl Planner<'_, '_> {
    /// Adds a difference, split by its origin. Changes of the store are applied at once. In a database shared with
    /// ovn-kubernetes, its changes are left for a while, since the store's event may still follow.
    pub(super) fn add_by_cause(
        &mut self,
        row: SetRow<'_>,
        identity: &Identity,
        wanted: &Wanted<'_>,
        change: Option<Change>,
    ) {
        let Some(Change::Mutate {
            uuid,
            family,
            insert,
            delete,
        }) = change
        else {
            return;
        };
        let is_shared = self.case.is_managed && identity.form == NameForm::Fqdn;
        let delay = is_shared.then_some(self.policy.delays.foreign);
        let mut parts = Parts::default();
        for address in insert {
            let is_news = match wanted.changes {
                None => true,
                Some(changes) => changes.addresses.contains(address),
            };
            let cause = self.cause((row.uuid, Some(address)), is_news, delay, wanted);
            parts.of(cause).0.push(address);
        }
        for text in delete {
            let address = address_in(&text);
            let is_news = match wanted.changes {
                None => !is_shared,
                Some(changes) => {
                    let is_moved = address.is_some_and(|it| changes.addresses.contains(it));
                    changes.became_complete || is_moved
                }
            };
            let cause = self.cause((row.uuid, address), is_news, delay, wanted);
            parts.of(cause).1.push(text);
        }
        for (verdict, trigger, (insert, delete)) in parts.all() {
            let change = Change::Mutate {
                uuid,
                family,
                insert,
                delete,
            };
            self.add(change, verdict, trigger);
        }
    }

    /// The action for one address. `is_news`: the store changed it.
    fn cause(
        &mut self,
        (row, address): (Uuid, Option<IpAddr>),
        is_news: bool,
        delay: Option<Duration>,
        wanted: &Wanted<'_>,
    ) -> (Verdict, Trigger) {
        let known = address.and_then(|it| self.before.foreign.get(&(row, it)).copied());
        if known.is_none() && is_news {
            return (Verdict::Now, Trigger::Store);
        }
        let (since, is_repair) = known.unwrap_or((self.now, wanted.changes.is_some()));
        let trigger = if is_repair {
            Trigger::ForeignChange
        } else {
            Trigger::Store
        };
        let (Some(delay), Some(address)) = (delay, address) else {
            return (Verdict::Now, trigger);
        };
        self.clocks
            .foreign
            .insert((row, address), (since, is_repair));
        let until = since + delay;
        if self.now >= until {
            return (Verdict::Now, trigger);
        }
        self.look_again(until);
        (Verdict::At(until), trigger)
    }

    /// A change that another client made and undid may still be explained by object events on their way. These events
    /// must not restore addresses that it has removed since.
    pub(super) fn keep_unexplained(&mut self) {
        let Some(changes) = self.case.wanted.and_then(|wanted| wanted.changes) else {
            return;
        };
        let delay = self.policy.delays.foreign;
        for (key, (since, is_repair)) in std::mem::take(&mut self.before.foreign) {
            let (row, address) = key;
            let is_there = self.case.rows.iter().any(|it| it.uuid == row);
            let until = since + delay;
            let is_explained = changes.addresses.contains(address);
            if !is_there || is_explained || self.now >= until {
                continue;
            }
            self.clocks.foreign.entry(key).or_insert((since, is_repair));
            self.look_again(until);
        }
    }
}

/// Added and removed members.
type Part = (Vec<IpAddr>, Vec<SmolStr>);

/// A change of a row, split by the planned action.
#[derive(Default)]
struct Parts {
    store: Part,
    foreign: Part,
    later: Part,
    /// When the first of the delayed ones is due.
    due: Option<Instant>,
}

impl Parts {
    fn of(&mut self, (verdict, trigger): (Verdict, Trigger)) -> &mut Part {
        match (verdict, trigger) {
            (Verdict::At(at), _) => {
                self.due = Some(self.due.map_or(at, |due| due.min(at)));
                &mut self.later
            }
            (_, Trigger::ForeignChange) => &mut self.foreign,
            _ => &mut self.store,
        }
    }

    /// The parts that are not empty.
    fn all(self) -> impl Iterator<Item = (Verdict, Trigger, Part)> {
        let Self {
            store,
            foreign,
            later,
            due,
        } = self;
        let later = due.map(|due| (Verdict::At(due), Trigger::ForeignChange, later));
        let now = [
            (Verdict::Now, Trigger::Store, store),
            (Verdict::Now, Trigger::ForeignChange, foreign),
        ];
        let parts = now.into_iter().chain(later);
        parts.filter(|(.., (insert, delete))| !(insert.is_empty() && delete.is_empty()))
    }
}

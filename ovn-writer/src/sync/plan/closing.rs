//! Plans for the rows of a name without an object. The absence of an object alone is no reason to close a set that a
//! rule uses.

use std::time::Instant;

use super::{Planner, Reason, Removable, SetRow, Trigger, Verdict, clock, difference};
use crate::{
    address_set::Identity,
    addresses::AddressesRef,
    desired::{Presence, Wanted},
    sync::change::Change,
};

struct Closing {
    verdict: Verdict,
    trigger: Trigger,
}

impl<'a> Planner<'a, '_> {
    /// Empties or deletes the row of an absent name, when the time has come.
    pub(super) fn close(
        &mut self,
        row: SetRow<'a>,
        identity: &Identity,
        wanted: &Wanted<'_>,
        removable: Removable<'a>,
    ) {
        let closing = self.closing(row, wanted);
        if let Verdict::At(at) = closing.verdict {
            self.look_again(at);
        }
        let is_ours = |store| self.options.is_ours(store);
        if let Some(store) = row.set.store().filter(|store| is_ours(store))
            && let Some(since) = self.unused_since(row, wanted)
        {
            let until = since + self.options.delays.away + self.options.delays.delete;
            if self.now >= until {
                let members = row.set.addresses().len();
                let change = Change::Delete {
                    uuid: row.uuid,
                    family: identity.family,
                    store: store.to_owned(),
                    members: members.saturating_add(row.set.others().len()),
                };
                self.add(Some(change), Verdict::Now, Trigger::Store, false);
                return;
            }
            self.look_again(until);
        }
        let was_closed = self.before.closed.contains(&row.uuid);
        // Only a set that a rule uses can be needed by another client.
        let is_closed = row.set.is_empty() && closing.verdict == Verdict::Now;
        if row.is_referred_to && (was_closed || is_closed) {
            self.clocks.closed.push(row.uuid);
        }
        let is_refilled = was_closed && row.is_referred_to;
        let left = |reason| Closing {
            verdict: Verdict::Left(reason),
            trigger: Trigger::Store,
        };
        let Closing { verdict, trigger } = match removable {
            Removable::None => left(Reason::Unknown),
            Removable::All | Removable::Only(_) if is_refilled => left(Reason::Refilled),
            Removable::All | Removable::Only(_) => closing,
        };
        let shown = match removable {
            Removable::None => Removable::All,
            removable => removable,
        };
        let empty = difference(row, AddressesRef::default(), shown);
        self.add(empty, verdict, trigger, false);
    }

    /// When to empty the row.
    fn closing(&mut self, row: SetRow<'_>, wanted: &Wanted<'_>) -> Closing {
        let Presence::Away {
            since: Some(since),
            rule_ended,
            is_permitted,
        } = wanted.presence
        else {
            return Closing {
                verdict: Verdict::Left(Reason::StoreOutOfSync),
                trigger: Trigger::Store,
            };
        };
        let delays = self.options.delays;
        if !row.is_referred_to {
            let unused = clock(&self.before.unused, row.uuid).unwrap_or(self.now);
            self.clocks.unused.push((row.uuid, unused));
            return self.from(since.max(unused) + delays.away);
        }
        if is_permitted || (rule_ended && !self.case.is_managed) {
            return self.from(since + delays.away);
        }
        if rule_ended {
            // In a managed database ovn-kubernetes removes the rules too; wait for that.
            return self.from(since + delays.absent);
        }
        let counts_from = self.case.absence_counts_from;
        let since = counts_from.map_or(since, |from| from.max(since));
        let absent = self.from(since + delays.absent);
        Closing {
            // When the reason ends, the name is checked again.
            verdict: (self.case.absence_hold).map_or(absent.verdict, Verdict::Left),
            trigger: Trigger::Absence,
        }
    }

    fn from(&self, at: Instant) -> Closing {
        let at = self.case.closes_from.map_or(at, |from| from.max(at));
        let verdict = match self.now >= at {
            true => Verdict::Now,
            false => Verdict::At(at),
        };
        Closing {
            verdict,
            trigger: Trigger::Store,
        }
    }

    /// Since when the object has been absent and the row unreferenced.
    fn unused_since(&self, row: SetRow<'_>, wanted: &Wanted<'_>) -> Option<Instant> {
        let Presence::Away { since, .. } = wanted.presence else {
            return None;
        };
        let unused = clock(&self.clocks.unused, row.uuid)?;
        Some(since?.max(unused))
    }

    /// Decides whether the name can be dropped when it has neither an object nor a row.
    pub(super) fn end(&mut self) {
        let away = self.case.wanted.map(|wanted| wanted.presence);
        let Some(Presence::Away { since, .. }) = away else {
            return;
        };
        if !self.case.rows.is_empty() {
            return;
        }
        match since.map(|since| since + self.options.delays.away) {
            Some(until) if self.now >= until => self.plan.is_over = true,
            Some(until) => self.look_again(until),
            None => {}
        }
    }
}

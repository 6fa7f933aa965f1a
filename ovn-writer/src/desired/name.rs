//! What is known of one DNS name beside its objects.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Instant};

use runtime::store::ObjectKey;

use super::Changes;
use crate::addresses::Addresses;

/// One DNS name that the store has, or had since this program started.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The objects of this name; almost always one.
    pub(super) objects: Vec<Arc<ObjectKey>>,
    /// Whether there was ever an object.
    pub(super) was_seen: bool,
    /// See [`super::Desired::set_in_use`].
    pub(super) is_in_use: bool,
    /// Whether the name was compared with the database.
    is_compared: bool,
    /// Few names have one at a time.
    past: Option<Box<Past>>,
}

/// What became of a name.
#[derive(Debug, Default)]
struct Past {
    away: Option<Away>,
    /// What objects had that are away or say nothing now.
    held: Addresses,
    /// See [`Changes`].
    moved: BTreeSet<IpAddr>,
    became_complete: bool,
}

/// A name without an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    pub(super) since: Instant,
    pub(super) rule_ended: bool,
    pub(super) is_permitted: bool,
}

impl Name {
    pub(super) fn away(&self) -> Option<Away> {
        self.past.as_ref()?.away
    }

    /// The last object went.
    pub(super) fn leave(&mut self, since: Instant, rule_ended: bool) {
        self.past.get_or_insert_default().away = Some(Away {
            since,
            rule_ended,
            is_permitted: false,
        });
    }

    /// There is an object again.
    pub(super) fn returned(&mut self) {
        self.change_past(|past| past.away = None);
    }

    pub(super) fn permit(&mut self, yes: bool) {
        if let Some(past) = &mut self.past
            && let Some(away) = &mut past.away
        {
            away.is_permitted = yes;
        }
    }

    pub(super) fn held(&self) -> Option<&Addresses> {
        let past = self.past.as_deref()?;
        (!past.held.all().is_empty()).then_some(&past.held)
    }

    /// What an object had is kept, as it went or says nothing any more.
    pub(super) fn hold(&mut self, addresses: Addresses) {
        if addresses.all().is_empty() {
            return;
        }
        let past = self.past.get_or_insert_default();
        let new = addresses.all().without(past.held.all());
        past.held.toggle(&new.into_iter().collect());
    }

    /// The objects say all there is to say.
    pub(super) fn release(&mut self) {
        self.change_past(|past| past.held = Addresses::default());
    }

    pub(super) fn compared(&mut self, yes: bool) {
        self.is_compared = yes;
        self.change_past(|past| {
            past.moved.clear();
            past.became_complete = false;
        });
    }

    /// These are wanted and were not, or the other way round. What comes before the name is compared is not remembered.
    pub(super) fn changed(&mut self, moved: Vec<IpAddr>, became_complete: bool) {
        if !self.is_compared || (moved.is_empty() && !became_complete) {
            return;
        }
        let past = self.past.get_or_insert_default();
        past.became_complete |= became_complete;
        for address in moved {
            if !past.moved.remove(&address) {
                past.moved.insert(address);
            }
        }
    }

    pub(super) fn changes(&self) -> Option<Changes<'_>> {
        static NONE: BTreeSet<IpAddr> = BTreeSet::new();
        let past = self.past.as_deref();
        self.is_compared.then(|| Changes {
            addresses: past.map_or(&NONE, |past| &past.moved),
            became_complete: past.is_some_and(|past| past.became_complete),
        })
    }

    fn change_past(&mut self, change: impl FnOnce(&mut Past)) {
        if let Some(past) = &mut self.past {
            change(past);
            let is_needed = past.away.is_some()
                || past.became_complete
                || !past.moved.is_empty()
                || !past.held.all().is_empty();
            if !is_needed {
                self.past = None;
            }
        }
    }
}

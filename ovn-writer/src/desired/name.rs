//! The state of one DNS name apart from its objects.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Instant};

use runtime::store::ObjectKey;

use super::Changes;
use crate::addresses::Addresses;

/// A DNS name that the store has, or had since this program started.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The objects of this name; almost always one.
    pub(super) objects: Vec<Arc<ObjectKey>>,
    /// Whether there was ever an object.
    pub(super) was_seen: bool,
    /// See [`super::Desired::set_in_use`].
    pub(super) is_in_use: bool,
    is_compared: bool,
    away: Option<Away>,
    /// The last addresses of objects that are absent or list none now.
    held: Addresses,
    /// See [`Changes`].
    moved: BTreeSet<IpAddr>,
    became_complete: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    pub(super) since: Instant,
    pub(super) rule_ended: bool,
    pub(super) is_permitted: bool,
}

impl Name {
    pub(super) fn away(&self) -> Option<Away> {
        self.away
    }

    /// Records that the last object was deleted.
    pub(super) fn leave(&mut self, since: Instant, rule_ended: bool) {
        self.away = Some(Away {
            since,
            rule_ended,
            is_permitted: false,
        });
    }

    /// Records that there is an object again.
    pub(super) fn returned(&mut self) {
        self.away = None;
    }

    pub(super) fn permit(&mut self, yes: bool) {
        if let Some(away) = &mut self.away {
            away.is_permitted = yes;
        }
    }

    pub(super) fn held(&self) -> Option<&Addresses> {
        (!self.held.all().is_empty()).then_some(&self.held)
    }

    /// Keeps the addresses of an object that was deleted or no longer lists them.
    pub(super) fn hold(&mut self, addresses: &Addresses) {
        let new = addresses.all().without(self.held.all());
        self.held.toggle(&new.into_iter().collect());
    }

    /// Drops the kept addresses.
    pub(super) fn release(&mut self) {
        self.held = Addresses::default();
    }

    pub(super) fn compared(&mut self, yes: bool) {
        self.is_compared = yes;
        self.moved.clear();
        self.became_complete = false;
    }

    /// Records added and removed addresses. Changes from before the first comparison do not matter.
    pub(super) fn changed(&mut self, moved: Vec<IpAddr>, became_complete: bool) {
        if !self.is_compared {
            return;
        }
        self.became_complete |= became_complete;
        for address in moved {
            if !self.moved.remove(&address) {
                self.moved.insert(address);
            }
        }
    }

    pub(super) fn changes(&self) -> Option<Changes<'_>> {
        self.is_compared.then_some(Changes {
            addresses: &self.moved,
            became_complete: self.became_complete,
        })
    }
}

//! The state of one DNS name apart from its objects.

use std::{net::IpAddr, sync::Arc};

use runtime::store::ObjectKey;

use super::Changes;
use crate::addresses::{Addresses, AddressesRef};

/// A DNS name that the store has, or had since this program started.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The objects of this name; almost always one.
    pub(super) objects: Vec<Arc<ObjectKey>>,
    /// See [`super::Desired::was_heard`].
    pub(super) was_heard: bool,
    is_compared: bool,
    /// `None` for most names: there are many.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default, PartialEq)]
struct Rare {
    /// The last addresses of objects that are absent or do not speak now.
    held: Addresses,
    /// See [`Changes`].
    moved: Addresses,
    became_complete: bool,
}

impl Name {
    pub(super) fn held(&self) -> Option<&Addresses> {
        let held = &self.rare.as_ref()?.held;
        (!held.all().is_empty()).then_some(held)
    }

    /// Keeps these addresses until an object of the name speaks.
    pub(super) fn hold(&mut self, addresses: &Addresses) {
        let held = self.held().map(Addresses::all).unwrap_or_default();
        let new = addresses.all().without(held);
        if !new.is_empty() {
            let rare = self.rare.get_or_insert_default();
            rare.held.toggle(&new.into_iter().collect());
        }
    }

    /// Drops the kept addresses.
    pub(super) fn release(&mut self) {
        self.clear(|rare| rare.held = Addresses::default());
    }

    pub(super) fn compared(&mut self, yes: bool) {
        self.is_compared = yes;
        self.clear(|rare| {
            rare.moved = Addresses::default();
            rare.became_complete = false;
        });
    }

    /// Records added and removed addresses. Changes from before the first comparison do not matter.
    pub(super) fn changed(&mut self, moved: Vec<IpAddr>, became_complete: bool) {
        if !self.is_compared || (moved.is_empty() && !became_complete) {
            return;
        }
        let rare = self.rare.get_or_insert_default();
        rare.became_complete |= became_complete;
        rare.moved.toggle(&moved.into_iter().collect());
    }

    pub(super) fn changes(&self) -> Option<Changes<'_>> {
        let rare = self.rare.as_ref();
        self.is_compared.then(|| Changes {
            addresses: rare.map_or(AddressesRef::default(), |rare| rare.moved.all()),
            became_complete: rare.is_some_and(|rare| rare.became_complete),
        })
    }

    /// Clears a part of the rare state.
    fn clear(&mut self, clear: impl FnOnce(&mut Rare)) {
        if let Some(rare) = &mut self.rare {
            clear(rare);
            if **rare == Rare::default() {
                self.rare = None;
            }
        }
    }
}

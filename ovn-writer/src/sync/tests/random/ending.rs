//! The end of a random sequence: the rows match the statuses.

use std::{collections::BTreeSet, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family};
use runtime::store::Event;

use super::{Life, NAMES};

impl Life {
    /// Everything can be read, and time passes.
    pub(super) fn end(&mut self) -> Result<(), TestCaseError> {
        self.unreadable.clear();
        self.in_sync = false;
        self.world.store(Event::OutOfSync("x".into()));
        self.list();
        self.pass(Duration::from_secs(8000))?;
        prop_assert!(self.world.sync.is_idle() && self.world.sync.refused() == 0);
        let absence = self.world.sync.state().absence(self.world.now);
        for (index, name) in NAMES.iter().enumerate() {
            for family in Family::ALL {
                let rows = self.world.rows(name, family.as_str());
                let is_named = self.is_named(index, family);
                if self.objects_of(index).is_empty() {
                    for row in rows {
                        let is_ours = row.external_ids.contains_key("ovn-writer/created");
                        let is_default =
                            row.id("k8s.ovn.org/owner-controller") == DEFAULT_NETWORK_CONTROLLER;
                        // A rule keeps it only if too many names are absent.
                        let is_held =
                            is_default && is_named && absence.names.iter().any(|it| it == name);
                        let is_over = row.addresses.is_empty() && (is_named || !is_ours);
                        let is_refilled = self.refilled.get(&row.name);
                        let is_refilled = is_named
                            && is_refilled.is_some_and(|them| row.addresses.is_subset(them));
                        // Names that this writer never saw, or dropped because they had no row, are left to others.
                        let state = self.world.sync.state();
                        let is_known = state.desired.wanted(&crate::testing::dns(name)).is_some();
                        let is_theirs = !(is_ours || is_known && self.last.contains_key(&index));
                        prop_assert!(
                            is_held && absence.is_exceeded || is_over || is_refilled || is_theirs,
                            "{} {:?}",
                            name,
                            row
                        );
                    }
                    continue;
                }
                let is_managed = self.world.sync.state().is_managed();
                prop_assert!(
                    !rows.is_empty() || is_managed && !is_named,
                    "{} {}",
                    name,
                    family
                );
                let Some(wanted) = self.wanted(index) else {
                    continue;
                };
                let of_family = |address: &&String| address.contains(':') == (family == Family::V6);
                let wanted: BTreeSet<_> = wanted.iter().filter(of_family).cloned().collect();
                for row in rows {
                    prop_assert_eq!(&row.addresses, &wanted);
                }
            }
        }
        // A new read of the database starts new decisions, and the origin of addresses in it is unknown.
        let mut rows = self.world.model.rows.values();
        if rows.any(|row| !row.addresses.is_empty() && self.refilled.contains_key(&row.name)) {
            return Ok(());
        }
        // The state has converged: a new read of everything changes nothing.
        self.world.read();
        prop_assert_eq!(self.world.work(), 0);
        Ok(())
    }
}

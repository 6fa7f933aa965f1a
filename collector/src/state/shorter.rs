//! The status of objects whose source keeps addresses for less time than another source of the
//! name. All have one state, with the longest retention.

use runtime::clock::Timestamp;

use super::{
    Limits, NameList, NameState, StatusUpdate, Stored,
    name::{Address, Name, ResolutionState},
    removal::removal_from,
    removed::Removed,
};

/// A retention that is shorter than that of the state.
#[derive(Clone, Copy, Debug)]
pub struct Shorter<'a> {
    pub own: &'a Limits,
    /// Those of the state.
    pub limits: &'a Limits,
    /// Whether expired addresses are removed now.
    pub removes: bool,
    pub now: Timestamp,
}

impl Shorter<'_> {
    /// The status that should replace `stored`, or `None` if that one is good enough.
    pub fn update(
        &self,
        state: &mut NameState,
        stored: &Stored,
        render: impl FnOnce(&mut NameState, &Stored, Timestamp) -> Option<StatusUpdate>,
    ) -> Option<StatusUpdate> {
        let mut kept = NameState {
            list: state.list.clone(),
            without_addresses: state.without_addresses.clone(),
            removed: Removed::default(),
            size: state.size.clone(),
            known: None,
        };
        let spec = kept.list.spec.clone();
        let is_written = stored.count().0 > 0;
        for name in &mut kept.list.names {
            let addresses = std::mem::take(&mut name.addresses);
            let found = name.dns_name != spec;
            let stays = |address: &Address| match stored.has(&name.dns_name, address.ip) {
                true => !self.removes || !self.is_over(name, address, found, address.not_before),
                // After a restart nothing is known to be fresh, and an address that left the
                // status must not come back with the delay that a restart gives it.
                false if is_written => self.earliest(address) > self.now,
                false => !self.is_over(name, address, found, Timestamp::default()),
            };
            name.addresses = addresses.into_iter().filter(stays).collect();
        }
        kept.forget_emptied(ResolutionState::Expired);
        let update = render(&mut kept, stored, self.now);
        state.list.are_rendered();
        update
    }

    fn earliest(&self, address: &Address) -> Timestamp {
        address.earliest_removal_on(self.own, self.limits)
    }

    fn removal(
        &self,
        name: &Name,
        address: &Address,
        found: bool,
        not_before: Timestamp,
    ) -> Option<Timestamp> {
        let earliest = self.earliest(address).max(not_before);
        removal_from(earliest, name, address, found, self.own)
    }

    fn is_over(&self, name: &Name, address: &Address, found: bool, not_before: Timestamp) -> bool {
        let removal = self.removal(name, address, found, not_before);
        removal.is_some_and(|at| at <= self.now)
    }

    /// When the next address leaves, if nothing changes until then.
    pub fn next_removal(&self, list: &NameList) -> Option<Timestamp> {
        let of_name = |name| {
            let found = list.is_found(name);
            let of_address =
                move |address: &Address| self.removal(name, address, found, address.not_before);
            name.addresses.iter().filter_map(of_address)
        };
        let removals = list.names.iter().flat_map(of_name);
        removals.filter(|at| self.removes && *at > self.now).min()
    }
}

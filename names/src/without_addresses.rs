//! Objects without any address. The entry of `spec.name` stays with the reason, since an empty
//! status does not explain anything.

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::{
    NameState, StatusUpdate, Stored,
    condition::ConditionWords,
    looked_up::{FamilyResult, LookupSummary},
    name::ResolutionState,
    stored::StoredName,
};

/// Why an object has no address, after it had some.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithoutAddresses {
    pub(super) verdict: ResolutionState,
    /// Failed look-ups since the last answer.
    pub(super) failures: i32,
}

impl NameState {
    /// Removes the names without addresses. The reason is `cause`, unless look-ups gave a better
    /// one. If no name is left, the object has lost its last address.
    pub(super) fn forget_emptied(&mut self, cause: ResolutionState) {
        let mut emptied = self
            .list
            .names
            .iter()
            .filter(|name| name.addresses.is_empty());
        let why = emptied.next().map(|name| WithoutAddresses {
            verdict: match (cause, name.verdict) {
                (
                    ResolutionState::Expired,
                    ResolutionState::Failing(_) | ResolutionState::NoAddress,
                ) => name.verdict,
                (cause, _) => cause,
            },
            failures: name.failures,
        });
        self.list.forget_empty();
        if self.list.names.is_empty()
            && let Some(why) = why
        {
            self.without_addresses = Some(Box::new(why));
        }
    }

    /// Clears the reason, as there are addresses.
    pub(super) fn forget_reason(&mut self) {
        self.without_addresses = None;
    }

    /// The name is no longer left out. It has no address until the next answer.
    pub fn take_in(&mut self) {
        if let Some(why) = &mut self.without_addresses
            && why.verdict == ResolutionState::LimitExceeded
        {
            why.verdict = ResolutionState::Expired;
        }
    }
}

impl WithoutAddresses {
    /// The reason in a stored status without addresses.
    pub(super) fn of_status(stored: &Stored, spec: &DnsName) -> Option<Self> {
        let own = stored.without_addresses(spec)?;
        own.told.reason()?;
        Some(Self {
            verdict: own.told.verdict(),
            failures: own.failures.max(0),
        })
    }

    /// A look-up of the name gave no address. Returns whether the reason changed.
    pub(super) fn looked_up(&mut self, look_up: LookupSummary) -> bool {
        if self.verdict == ResolutionState::LimitExceeded {
            return false;
        }
        let before = self.verdict;
        if let Some(failure) = look_up.failure {
            self.verdict = ResolutionState::Failing(failure);
            self.failures = self.failures.saturating_add(1);
        } else if look_up.results == [FamilyResult::Absent; 2] {
            self.verdict = ResolutionState::NoAddress;
        }
        self.verdict != before
    }
}

/// The entry of `spec.name` in a status without addresses. `None` if the object never had one, as
/// far as this process or `stored` shows.
pub(super) fn own_entry(
    state: &mut NameState,
    stored: &Stored,
    now: Timestamp,
    update: &mut StatusUpdate,
) -> Option<StoredName> {
    let (_, addresses) = stored.count();
    if state.without_addresses.is_none() && addresses > 0 {
        // The status has addresses, but all were refused when it was read.
        state.without_addresses = Some(Box::new(WithoutAddresses {
            verdict: ResolutionState::Refused,
            failures: 0,
        }));
    }
    let WithoutAddresses { verdict, failures } = *state.without_addresses.as_deref()?;
    let spec = &state.list.spec;
    let mut names = stored.names.iter();
    let old = names.find(|old| old.dns_name == *spec);
    let was = old.map_or(&ConditionWords::Nothing, |old| &old.told);
    let told = was.next(verdict, now);
    told.reason()?;
    update.flipped |= told.differs(was);
    Some(StoredName {
        dns_name: spec.clone(),
        addresses: Box::default(),
        told,
        failures,
    })
}

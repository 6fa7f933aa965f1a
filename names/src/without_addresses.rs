//! Objects without any address. The entry of `spec.name` stays with the reason, since an empty
//! status does not explain anything.

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::{
    NameState, StatusUpdate, Stored,
    condition::{ConditionWords, Guard},
    lookup::{FamilyResult, LookupSummary},
    name::ResolutionState,
    stored::StoredName,
};

/// Why an object has no address, after it had some.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithoutAddresses {
    pub(super) resolution: ResolutionState,
    /// Failed look-ups since the last answer.
    pub(super) failures: i32,
}

impl NameState {
    /// Removes the names without addresses. The reason is `cause`, unless look-ups gave a better
    /// one. If no name is left, the object has lost its last address.
    pub(super) fn remove_emptied(&mut self, cause: ResolutionState) {
        let mut emptied = self
            .list
            .names
            .iter()
            .filter(|name| name.addresses.is_empty());
        let why = emptied.next().map(|name| WithoutAddresses {
            resolution: match (cause, name.resolution) {
                (
                    ResolutionState::Expired,
                    ResolutionState::Failing(_) | ResolutionState::NoAddress,
                ) => name.resolution,
                (cause, _) => cause,
            },
            failures: name.failures,
        });
        self.list.remove_empty();
        if self.list.names.is_empty()
            && let Some(why) = why
        {
            self.without_addresses = Some(Box::new(why));
        }
    }

    /// A guard refused an address of an answer. Returns whether it is news that the name has none for this reason.
    pub fn note_refused(&mut self, guard: &str) -> bool {
        let why = self.without_addresses.as_deref();
        let is_explained = why.is_some_and(|why| why.resolution != ResolutionState::Unknown);
        let Some(guard) = Guard::of(guard).filter(|_| !is_explained && self.list.names.is_empty())
        else {
            return false;
        };
        self.without_addresses = Some(Box::new(WithoutAddresses {
            resolution: ResolutionState::AnswerRefused(guard),
            failures: 0,
        }));
        true
    }

    /// Clears the reason, as there are addresses.
    pub(super) fn clear_reason(&mut self) {
        self.without_addresses = None;
    }

    /// The name is no longer left out. It has no address until the next answer.
    pub fn admit_again(&mut self) {
        if let Some(why) = &mut self.without_addresses
            && why.resolution == ResolutionState::LimitExceeded
        {
            why.resolution = ResolutionState::Expired;
        }
    }
}

impl WithoutAddresses {
    /// The reason in a stored status without addresses.
    pub(super) fn of_status(stored: &Stored, rule_name: &DnsName) -> Option<Self> {
        let own = stored.without_addresses(rule_name)?;
        own.condition_words.reason()?;
        Some(Self {
            resolution: own.condition_words.resolution(),
            failures: own.failures.max(0),
        })
    }

    /// A look-up of the name gave no address. Returns whether the reason changed.
    pub(super) fn apply_lookup(&mut self, look_up: LookupSummary) -> bool {
        let is_refused = matches!(self.resolution, ResolutionState::AnswerRefused(_));
        if is_refused && !look_up.results.contains(&FamilyResult::Unknown) {
            self.resolution = ResolutionState::Unknown;
            return true;
        }
        if is_refused || self.resolution == ResolutionState::LimitExceeded {
            return false;
        }
        let before = self.resolution;
        if let Some(failure) = look_up.failure {
            self.resolution = ResolutionState::Failing(failure);
            self.failures = self.failures.saturating_add(1);
        } else if look_up.results == [FamilyResult::Absent; 2] {
            self.resolution = ResolutionState::NoAddress;
        }
        self.resolution != before
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
            resolution: ResolutionState::Refused,
            failures: 0,
        }));
    }
    let WithoutAddresses {
        resolution,
        failures,
    } = *state.without_addresses.as_deref()?;
    let rule_name = &state.list.rule_name;
    let mut names = stored.names.iter();
    let old = names.find(|old| old.dns_name == *rule_name);
    let was = old.map_or(&ConditionWords::Nothing, |old| &old.condition_words);
    let condition_words = was.next(resolution, now);
    condition_words.reason()?;
    update.flipped |= condition_words.differs(was);
    Some(StoredName {
        dns_name: rule_name.clone(),
        addresses: Box::default(),
        condition_words,
        failures,
    })
}

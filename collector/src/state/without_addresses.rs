//! An object without any address: the entry of its `spec.name` stays and says why, since an empty status says nothing.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    NameState, Stored,
    condition::Told,
    looked_up::{FamilyResult, LookupSummary},
    name::Verdict,
    removed::Removed,
    render::Count,
    stored::StoredName,
};

/// What there is to say of an object that lost its last address.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithoutAddresses {
    pub(super) verdict: Verdict,
    /// Look-ups that failed since the last answer.
    pub(super) failures: i32,
}

impl NameState {
    /// Forgets the names that have no address left. `cause` took their last ones, unless look-ups told why. If no name is left
    /// the object has lost its last address.
    pub(super) fn forget_emptied(&mut self, cause: Verdict) {
        let mut emptied = self.names.iter().filter(|name| name.addresses.is_empty());
        let why = emptied.next().map(|name| WithoutAddresses {
            verdict: match (cause, name.verdict) {
                (Verdict::Expired, Verdict::Failing(_) | Verdict::NoAddress) => name.verdict,
                (cause, _) => cause,
            },
            failures: name.failures,
        });
        self.forget_empty();
        if self.names.is_empty()
            && let Some(why) = why
        {
            self.without_addresses = Some(Box::new(why));
        }
    }

    /// Nothing of the name is kept from now on, as its namespaces have too much. Returns what was known.
    pub fn leave_out(&mut self, now: Timestamp) -> Vec<(DnsName, IpAddr)> {
        let gone = self.take_away(now, |_, _| true);
        // Nothing is taken in that could bring one back.
        self.removed = Removed::default();
        self.without_addresses = Some(Box::new(WithoutAddresses {
            verdict: Verdict::LimitExceeded,
            failures: 0,
        }));
        if let Some(known) = &self.known {
            known.leave_out(&self.spec);
        }
        gone
    }

    /// There are addresses, and no reason why there are none.
    pub(super) fn forget_reason(&mut self) {
        if self.without_addresses.take().is_some() {
            self.know_again();
        }
    }

    /// The name is not left out any more. Until an answer comes it has no address.
    pub fn take_in(&mut self) {
        if let Some(why) = &mut self.without_addresses
            && why.verdict == Verdict::LimitExceeded
        {
            why.verdict = Verdict::Expired;
            self.know_again();
        }
    }

    /// Nothing is known of why it has no address, if that is because it was left out.
    pub fn forget_left_out(&mut self) {
        let why = self.without_addresses.as_ref();
        if why.is_some_and(|why| why.verdict == Verdict::LimitExceeded) {
            self.forget_reason();
        }
    }

    /// New names of a wildcard that is not left out cost their clients' budgets.
    fn know_again(&self) {
        if let Some(known) = &self.known {
            known.take_in(&self.spec);
        }
    }

    /// Goes on where the status says that the object has lost its last address.
    pub(super) fn absorb_loss(&mut self, stored: &Stored) {
        if !self.names.is_empty() || self.without_addresses.is_some() {
            return;
        }
        if let Some(own) = stored.without_addresses(&self.spec)
            && own.told.reason().is_some()
        {
            self.without_addresses = Some(Box::new(WithoutAddresses {
                verdict: own.told.verdict(),
                failures: own.failures.max(0),
            }));
        }
    }

    /// A look-up of a name of which no address is known. Returns whether another reason is to be told.
    pub(super) fn looked_up_in_vain(&mut self, dns_name: &DnsName, look_up: LookupSummary) -> bool {
        let Some(known) = &mut self.without_addresses else {
            return false;
        };
        if *dns_name != self.spec || known.verdict == Verdict::LimitExceeded {
            return false;
        }
        let before = known.verdict;
        if let Some(failure) = look_up.failure {
            known.verdict = Verdict::Failing(failure);
            known.failures = known.failures.saturating_add(1);
        } else if look_up.results == [FamilyResult::Absent; 2] {
            known.verdict = Verdict::NoAddress;
        }
        known.verdict != before
    }

    /// The entry of `spec.name` of a status without any address, if there is anything to say: the object had addresses, as far
    /// as this process or `stored` knows.
    pub(super) fn own_entry(
        &mut self,
        stored: &Stored,
        now: Timestamp,
        count: &mut Count,
    ) -> Option<StoredName> {
        let (_, addresses) = stored.count();
        if self.without_addresses.is_none() && addresses > 0 {
            // What a status has and nothing is known of was not admitted.
            self.without_addresses = Some(Box::new(WithoutAddresses {
                verdict: Verdict::Refused,
                failures: 0,
            }));
        }
        let WithoutAddresses { verdict, failures } = *self.without_addresses.as_deref()?;
        let mut names = stored.names.iter();
        let old = names.find(|old| old.dns_name == self.spec);
        let was = old.map_or(&Told::Nothing, |old| &old.told);
        let told = was.next(verdict, now);
        told.reason()?;
        count.flipped |= told.differs(was);
        Some(StoredName {
            dns_name: self.spec.clone(),
            addresses: Box::default(),
            told,
            failures,
        })
    }
}

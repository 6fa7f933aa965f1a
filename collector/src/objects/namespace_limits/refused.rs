//! New names under wildcards that were refused for a quota. A standby receives the same answers but
//! does not know namespaces, so it may add these names to the status.

use std::{collections::HashMap, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

/// Longer than a standby takes to add a name.
const KEPT: Duration = Duration::from_secs(300);

/// The most names remembered. Beyond it, every new name counts as refused under wildcards whose
/// namespaces are all refused new names.
const MOST: usize = 4_096;

/// The names, each with the time of its last refusal.
#[derive(Debug, Default)]
pub(super) struct RefusedNames {
    names: HashMap<DnsName, Timestamp>,
    /// When there were too many names.
    overflowed_at: Option<Timestamp>,
}

impl RefusedNames {
    pub(super) fn insert(&mut self, name: &DnsName, now: Timestamp) {
        if let Some(at) = self.names.get_mut(name) {
            *at = now;
        } else if self.names.len() < MOST {
            self.names.insert(name.clone(), now);
        } else {
            self.overflowed_at = Some(now);
        }
    }

    /// Whether the name was refused, or may have been. The latter requires that all namespaces with
    /// a rule for it are refused new names: otherwise the name may belong to one that is not.
    pub(super) fn has(&self, name: &DnsName, are_all_refused: bool) -> bool {
        (are_all_refused && self.overflowed_at.is_some()) || self.names.contains_key(name)
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.names.retain(|_, at| *at + KEPT > now);
        self.overflowed_at = self.overflowed_at.filter(|at| *at + KEPT > now);
    }

    /// The clock was set.
    pub(super) fn gap(&mut self, now: Timestamp) {
        for at in self.names.values_mut().chain(&mut self.overflowed_at) {
            *at = (*at).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{at, name};

    #[test]
    fn when_the_refused_names_are_full_every_possible_name_counts_as_refused() {
        let mut refused = RefusedNames::default();
        let known = name("n1.example.com");
        refused.insert(&known, at(0));
        let other = name("other.example.com");
        assert!(refused.has(&known, true) && !refused.has(&other, true));
        for i in 0..MOST {
            refused.insert(&name(&format!("n{i}.example.com")), at(10_000));
        }
        assert!(!refused.has(&other, true));
        refused.insert(&name("more.example.com"), at(20_000));
        assert!(refused.has(&other, true) && !refused.has(&other, false));
        assert!(refused.has(&known, false));
        // Refusals of the last five minutes count.
        refused.forget(at(319_999));
        assert!(refused.has(&other, true));
        refused.forget(at(320_000));
        assert!(!refused.has(&known, true) && !refused.has(&other, true));
    }
}

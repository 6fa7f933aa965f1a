//! New names under wildcards that were not taken in, since a namespace has too much. A standby hears the same answers, does not know whose
//! pods asked, and adds to the status what it lacks.

use std::{collections::HashMap, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

/// Longer than a standby takes to add a name.
const KEPT: Duration = Duration::from_secs(300);

/// So many names are known. While there are more, every new name counts as one of them under wildcards of which all namespaces are refused.
const MOST: usize = 4_096;

/// These names, each with when it was last refused.
#[derive(Debug, Default)]
pub(super) struct RefusedNames {
    names: HashMap<DnsName, Timestamp>,
    /// When there were too many.
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

    /// Whether the name was refused, or may have been where all namespaces with a rule for it are refused new names. Where one is not, the
    /// name may be that one's.
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
    fn so_many_refused_names_are_known_and_then_every_name_counts_that_can_only_be_one() {
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
        // What was refused in the last five minutes counts.
        refused.forget(at(319_999));
        assert!(refused.has(&other, true));
        refused.forget(at(320_000));
        assert!(!refused.has(&known, true) && !refused.has(&other, true));
    }
}

//! Property: which look-ups remove addresses, and the status after that.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    properties::{Happens, SPEC, happenings},
    *,
};

/// A model of the look-ups: absences in a row by name and family, and the last time that a result
/// let addresses leave.
#[derive(Default)]
struct Rows {
    absences: BTreeMap<(DnsName, Family), (u32, Timestamp)>,
    closing: BTreeMap<(DnsName, Family), Timestamp>,
}

impl Rows {
    fn take(&mut self, what: &Happens, now: Timestamp) {
        match what {
            Happens::Observed(observation) => {
                self.reset(&observation.name, observation.family);
            }
            Happens::LookedUp(asked, results) => {
                for (family, result) in Family::ALL.into_iter().zip(*results) {
                    self.look_up(&name(asked), family, result, now);
                }
            }
            Happens::Failed(asked, failures) => {
                for (family, failure) in Family::ALL.into_iter().zip(*failures) {
                    let result = if failure == Failure::NXDOMAIN {
                        FamilyResult::Absent
                    } else {
                        FamilyResult::Unknown
                    };
                    self.look_up(&name(asked), family, result, now);
                }
            }
            Happens::Gap => *self = Self::default(),
            Happens::Stored(_) | Happens::Expired | Happens::Written => {}
        }
    }

    fn look_up(&mut self, asked: &DnsName, family: Family, result: FamilyResult, now: Timestamp) {
        let key = (asked.clone(), family);
        let closes = match result {
            FamilyResult::Complete => {
                self.reset(asked, family);
                true
            }
            FamilyResult::Absent => {
                let row = self.absences.entry(key.clone()).or_insert((0, now));
                row.0 += 1;
                row.0 >= 5 && row.1 + Duration::from_secs(60) <= now
            }
            FamilyResult::Unknown => {
                self.reset(asked, family);
                false
            }
        };
        if closes {
            self.closing.insert(key, now);
        }
    }

    fn reset(&mut self, asked: &DnsName, family: Family) {
        self.absences.remove(&(asked.clone(), family));
    }

    /// A name without addresses has no counts.
    fn forget_all_but(&mut self, known: &Known) {
        let is_known = |(name, _): &(DnsName, Family)| known.state.list().addresses_of(name) > 0;
        self.absences.retain(|key, _| is_known(key));
        self.closing.retain(|key, _| is_known(key));
    }
}

fn family_of(ip: IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn with_lookups() -> Known {
    let mut known = Known::new(SPEC);
    known.limits.lookups = true;
    // Makes sure that addresses leave only because of look-ups.
    known.limits.max_stale = Duration::from_secs(1 << 30);
    known.limits.wildcard_idle = Duration::from_secs(1 << 30);
    known
}

proptest! {
    #[test]
    fn address_leaves_by_a_full_answer_or_five_absences(
        list in happenings(),
    ) {
        let (mut known, mut rows) = (with_lookups(), Rows::default());
        let mut now = 0.0;
        for (what, later) in &list {
            now += later;
            rows.take(what, at(now));
            let before = known.expiries();
            known.happen(what, now);
            let after = known.expiries();
            for ((name, ip), expiry) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
                prop_assert!(matches!(what, Happens::Expired), "{what:?} took {ip} of {name}");
                let closing = rows.closing.get(&(name.clone(), family_of(*ip)));
                prop_assert!(closing.is_some_and(|at| at >= expiry), "{ip} of {name} went");
            }
            rows.forget_all_but(&known);
        }
    }
}

#[test]
fn name_without_an_address_says_which_guard_refuses_its_answers() {
    let mut known = Known::new(SPEC);
    let own = |known: &Known| {
        let names = known.stored.resolved_names.iter();
        let words = names.flat_map(|it| [it.refused(), it.failure()]);
        words.map(|it| it.map(str::to_owned)).collect::<Vec<_>>()
    };
    assert!(known.state.note_refused("unspecified"));
    assert!(!known.state.note_refused("loopback"));
    assert!(known.write(1.0) && !known.write(2.0));
    assert_eq!(
        own(&known),
        [Some("answer refused (unspecified)".to_owned()), None]
    );
    known.looked_up(SPEC, [FamilyResult::Unknown, FamilyResult::Absent], 3.0);
    assert!(!known.write(4.0));
    known.looked_up(SPEC, [FamilyResult::Absent; 2], 5.0);
    assert!(known.write(6.0));
    assert_eq!(own(&known), [None; 0]);
    assert!(known.state.note_refused("loopback"));
    known.observe(SPEC, &[("1.1.1.1", 30)], 7.0);
    known.write(8.0);
    assert_eq!(own(&known), [None, None]);
}

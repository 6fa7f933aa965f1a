//! The progress of a bump, from the numbers in the databases.

use std::collections::BTreeSet;

/// How far the chassis have followed a bump.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// All have.
    In,
    /// All but those that are silent have.
    InButSilent,
    /// Some that should have not.
    UnderWay,
    /// Another client set `nb_cfg` back, so the number means nothing any more.
    Reset,
}

/// The progress of the bump with the number `bumped`, if `nb_cfg` is `latest` now. `chassis` are their names and
/// numbers. A chassis that followed is no longer silent.
pub(super) fn progress<'a>(
    bumped: i64,
    latest: i64,
    chassis: impl Iterator<Item = (&'a str, i64)>,
    silent: &mut BTreeSet<String>,
) -> Progress {
    if latest < bumped {
        return Progress::Reset;
    }
    let (mut followed, mut late) = (0, 0);
    let mut are_silent = BTreeSet::new();
    for (name, number) in chassis {
        // A greater number than the latest is from before a reset.
        if (bumped..=latest).contains(&number) {
            followed += 1;
        } else if silent.contains(name) {
            are_silent.insert(name.to_owned());
        } else {
            late += 1;
        }
    }
    let is_complete = followed > 0 && late == 0;
    *silent = are_silent;
    match (is_complete, silent.is_empty()) {
        (true, true) => Progress::In,
        (true, false) => Progress::InButSilent,
        (false, _) => Progress::UnderWay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bump_is_in_when_each_chassis_has_its_number() {
        let mut silent = BTreeSet::new();
        let mut at = |bumped, latest, numbers: &[i64]| {
            let names = ["a", "b"];
            let chassis = names.into_iter().zip(numbers.iter().copied());
            progress(bumped, latest, chassis, &mut silent)
        };
        assert_eq!(at(7, 7, &[6, 6]), Progress::UnderWay);
        assert_eq!(at(7, 7, &[7, 6]), Progress::UnderWay);
        assert_eq!(at(7, 7, &[7, 7]), Progress::In);
        // Another client bumped meanwhile.
        assert_eq!(at(7, 9, &[9, 8]), Progress::In);
        assert_eq!(at(7, 7, &[]), Progress::UnderWay);
    }

    #[test]
    fn a_number_from_before_a_reset_is_no_progress() {
        let mut silent = BTreeSet::new();
        let mut at = |bumped, latest, number| {
            progress(bumped, latest, [("a", number)].into_iter(), &mut silent)
        };
        assert_eq!(at(7, 3, 6), Progress::Reset);
        assert_eq!(at(4, 4, 6), Progress::UnderWay);
        assert_eq!(at(4, 4, 4), Progress::In);
    }

    #[test]
    fn a_silent_chassis_does_not_count_until_it_follows_again() {
        let mut silent = BTreeSet::from(["b".to_owned(), "gone".to_owned()]);
        let mut at = |bumped, [a, b]: [i64; 2]| {
            let chassis = [("a", a), ("b", b)].into_iter();
            progress(bumped, bumped, chassis, &mut silent)
        };
        assert_eq!(at(7, [6, 1]), Progress::UnderWay);
        assert_eq!(at(7, [7, 1]), Progress::InButSilent);
        assert_eq!(at(8, [8, 8]), Progress::In);
        assert_eq!(at(9, [9, 8]), Progress::UnderWay);
        // If no chassis follows, the silent one is no excuse.
        assert_eq!(at(9, [8, 8]), Progress::UnderWay);
        assert!(silent.is_empty());
    }
}

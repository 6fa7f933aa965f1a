//! The number of absent names up to which both programs believe that the names are gone.

/// This many names may be absent in any store.
const FEW: usize = 10;

/// In a large store, one in this many of the names in use may be absent.
const SHARE: usize = 20;

/// Whether `absent` is a small part of the names in use: at most 10 or 5 % of `in_use`, and at most half. More absent
/// names are likely a fault: a deleted CRD, a restored backup, an empty folder.
pub fn are_few(absent: usize, in_use: usize) -> bool {
    absent <= FEW.max(in_use / SHARE) && absent <= in_use / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_or_a_small_share_may_be_absent_but_never_more_than_half() {
        for (absent, in_use, expected) in [
            (0, 0, true),
            (1, 1, false),
            (1, 2, true),
            (2, 3, false),
            (10, 20, true),
            (11, 200, false),
            (50, 1000, true),
            (51, 1000, false),
        ] {
            assert_eq!(are_few(absent, in_use), expected, "{absent} of {in_use}");
        }
    }
}

//! Successful look-ups, and the names that they apply to.

use super::*;

#[test]
fn status_entry_of_an_unmatched_name_is_removed() {
    check(vec![row(
        "an entry of a name that spec.name does not match is removed",
        WWW,
        &[Status(
            &[
                (WWW, 0, &[("1.1.1.1", 30, 0)]),
                (A, 0, &[("2.2.2.2", 30, 0)]),
            ],
            0.0,
        )],
        &["www.example.com. - 0: 1.1.1.1 30@0"],
    )]);
}

#[test]
fn status_after_an_answer_has_clamped_ttls_and_changed_times() {
    check(vec![
        row(
            "the entry does not exist: add it, not degraded, without failures",
            WWW,
            &[Seen(WWW, &[("1.1.1.1", 30), ("2.2.2.2", 60)], 0.7)],
            &["www.example.com. NOERROR 0: 1.1.1.1 30@0 2.2.2.2 60@0"],
        ),
        row(
            "the minimum TTL is a floor for every TTL, the maximum a ceiling",
            WWW,
            &[Seen(
                WWW,
                &[
                    ("1.1.1.1", 0),
                    ("2.2.2.2", 4),
                    ("3.3.3.3", 1 << 31),
                    ("4.4.4.4", u32::MAX),
                ],
                0.0,
            )],
            &[
                "www.example.com. NOERROR 0: 1.1.1.1 5@0 2.2.2.2 5@0 3.3.3.3 86400@0 4.4.4.4 86400@0",
            ],
        ),
        row(
            "a next look-up time that differs by the tolerance of 5 s is the same",
            WWW,
            &[
                Seen(WWW, &[("1.1.1.1", 30)], 0.0),
                Write(0.0),
                Seen(WWW, &[("1.1.1.1", 30)], 5.0),
                Quiet(5.0),
                Seen(WWW, &[("1.1.1.1", 20)], 14.0),
                Quiet(14.0),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 30@0"],
        ),
        row(
            "one that differs by more is written",
            WWW,
            &[
                Seen(WWW, &[("1.1.1.1", 30)], 0.0),
                Write(0.0),
                Seen(WWW, &[("1.1.1.1", 40)], 5.1),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 40@5"],
        ),
        row(
            "resolutionFailures = 0 and Degraded=False, even if no time changes",
            WWW,
            &[
                Seen(WWW, &[("1.1.1.1", 300)], 0.0),
                Failed(WWW, SERVFAIL, 1.0),
                Write(1.0),
                Seen(WWW, &[("1.1.1.1", 300)], 2.0),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 300@0"],
        ),
        row(
            "NODATA is neither success nor failure, and touches no address of the other family",
            WWW,
            &[
                Got(WWW, &[("1.1.1.1", 30)], 0.0),
                Failed(WWW, SERVFAIL, 1.0),
                Write(1.0),
                LookedUp(WWW, [FamilyResult::Unknown, FamilyResult::Absent], 20.0),
                Expire(1000.0),
                Quiet(1000.0),
            ],
            &["www.example.com. SERVFAIL 1: 1.1.1.1 30@0"],
        ),
    ]);
}

#[test]
fn status_of_a_wildcard_omits_names_with_their_own_rule() {
    check(vec![
        row(
            "a wildcard's own entry stands first, a regular name's last",
            WILD,
            &[
                Seen(B, &[("2.2.2.2", 30)], 0.0),
                Write(0.0),
                Seen(A, &[("1.1.1.1", 30)], 0.0),
                Write(0.0),
                Seen(WILD, &[("3.3.3.3", 30)], 0.0),
            ],
            &[
                "*.example.com. NOERROR 0: 3.3.3.3 30@0",
                "b.example.com. - 0: 2.2.2.2 30@0",
                "a.example.com. - 0: 1.1.1.1 30@0",
            ],
        ),
        row(
            "the wildcard itself was looked up: every regular entry that it covers is removed, others stay",
            WILD,
            &[
                Seen(A, &[("1.1.1.1", 30)], 0.0),
                Seen(B, &[("1.1.1.1", 30), ("2.2.2.2", 30)], 0.0),
                Write(0.0),
                Seen(WILD, &[("1.1.1.1", 30), ("3.3.3.3", 30)], 1.0),
            ],
            &[
                "*.example.com. NOERROR 0: 1.1.1.1 30@1 3.3.3.3 30@1",
                "b.example.com. - 0: 1.1.1.1 30@0 2.2.2.2 30@0",
            ],
        ),
        row(
            "a covered name stays in the look-up queue, and its entry returns in the write that takes the wildcard's away",
            WILD,
            &[
                Got(WILD, &[("1.1.1.1", 30)], 0.0),
                Got(A, &[("1.1.1.1", 30)], 5.0),
                Write(5.0),
                Next(A, Some(35.0)),
                Absences(WILD, 5, 30.0),
                Expire(35.0),
            ],
            &["a.example.com. - 0: 1.1.1.1 30@5"],
        ),
    ]);
}

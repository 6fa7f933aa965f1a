//! Failed look-ups.

use super::*;

/// Look-ups that fail every 5 s from second 30 on.
fn failing(asked: &'static str, failure: Failure, rounds: u32) -> Vec<Step> {
    let round = |i: u32| Failed(asked, failure, 30.0 + 5.0 * f64::from(i));
    (0..rounds).map(round).collect()
}

fn after(before: &[Step], failures: Vec<Step>, then: &[Step]) -> Vec<Step> {
    [before, &failures, then].concat()
}

#[test]
fn address_during_failures_is_extended_until_nxdomain_or_max_stale() {
    let known = [
        Got(WWW, &[("1.1.1.1", 30), ("2.2.2.2", 300)], 0.0),
        Write(0.0),
    ];
    check(vec![
        row(
            "an address that is not about to expire keeps its times",
            WWW,
            &after(&known, vec![Failed(WWW, SERVFAIL, 24.9)], &[]),
            &["www.example.com. SERVFAIL 1: 1.1.1.1 30@0 2.2.2.2 300@0"],
        ),
        row(
            "one that is, within the tolerance, gets the minimum TTL from now",
            WWW,
            &after(
                &known,
                vec![Failed(WWW, SERVFAIL, 28.0)],
                &[Next(WWW, Some(33.0))],
            ),
            &["www.example.com. SERVFAIL 1: 1.1.1.1 5@28 2.2.2.2 300@0"],
        ),
        row(
            "from 5 after NXDOMAIN nothing is extended, addresses leave at expiry + grace",
            WWW,
            &after(&known, failing(WWW, Failure::NXDOMAIN, 5), &[Expire(54.9)]),
            &["www.example.com. NXDOMAIN 5: 1.1.1.1 5@45 2.2.2.2 300@0"],
        ),
        row(
            "an object that lost its last address keeps its own entry, with the reason",
            WWW,
            &after(
                &known,
                failing(WWW, Failure::NXDOMAIN, 5),
                &[
                    Expire(55.0),
                    Write(55.0),
                    Failed(WWW, Failure::NXDOMAIN, 300.0),
                    Expire(305.0),
                ],
            ),
            &["www.example.com. NXDOMAIN 6:"],
        ),
        row(
            "a wildcard's own entry fails like any other, and its names do not",
            WILD,
            &after(
                &[
                    Got(WILD, &[("1.1.1.1", 30)], 0.0),
                    Got(A, &[("2.2.2.2", 3000)], 0.0),
                    Write(0.0),
                ],
                failing(WILD, Failure::NXDOMAIN, 5),
                &[Failed(WILD, Failure::NXDOMAIN, 90.0), Expire(95.0)],
            ),
            &["a.example.com. - 0: 2.2.2.2 3000@0"],
        ),
        row(
            "from 5 after other failures addresses stay",
            WWW,
            &after(
                &known,
                failing(WWW, Failure::Timeout, 5),
                &[Expire(24.0 * HOUR - 1.0)],
            ),
            &["www.example.com. Timeout 5: 1.1.1.1 5@45 2.2.2.2 300@0"],
        ),
        row(
            "up to --max-stale after their last success",
            WWW,
            &after(
                &known,
                failing(WWW, Failure::Timeout, 5),
                &[Failed(WWW, Failure::Timeout, 400.0), Expire(24.0 * HOUR)],
            ),
            &["www.example.com. Timeout 6:"],
        ),
    ]);
}

#[test]
fn family_that_fails_alone_is_no_failure_of_the_name() {
    const BOTH: Answered = &[("1.1.1.1", 30), ("2001:db8::1", 30)];
    use FamilyResult::{Complete, Unknown};
    check(vec![row(
        "the addresses of the failed family are extended, the other's live and die apart",
        WWW,
        &[
            Got(WWW, BOTH, 0.0),
            Write(0.0),
            LookedUp(WWW, [Complete, Unknown], 30.0),
            Expire(35.0),
        ],
        &["www.example.com. NOERROR 0: 2001:db8::1 5@30"],
    )]);
}

#[test]
fn object_without_addresses_says_why() {
    const TTL: Answered = &[("1.1.1.1", 30)];
    check(vec![
        row(
            "NOERROR without an address",
            WWW,
            &[Got(WWW, TTL, 0.0), Absences(WWW, 5, 30.0), Expire(35.0)],
            &["www.example.com. NoAddress 0:"],
        ),
        row(
            "a name under a wildcard that lost the last one: the wildcard's own entry stands, and no other",
            WILD,
            &[
                Got(A, TTL, 0.0),
                Got(B, TTL, 0.0),
                Write(0.0),
                Absences(B, 5, 30.0),
                Absences(A, 5, 30.0),
                Expire(35.0),
            ],
            &["*.example.com. NoAddress 0:"],
        ),
        row(
            "an object that is made again without its status says it again",
            WWW,
            &[
                Got(WWW, TTL, 0.0),
                Absences(WWW, 5, 30.0),
                Expire(35.0),
                Write(35.0),
                Status(&[], 36.0),
            ],
            &["www.example.com. NoAddress 0:"],
        ),
        row(
            "a status with addresses that the guards refuse loses them, and says so",
            WWW,
            &[Status(&[(WWW, 0, &[("127.0.0.1", 30, 0)])], 0.0)],
            &["www.example.com. AddressesRefused 0:"],
        ),
    ]);
}

//! Failed look-ups.

use super::*;

/// Look-ups that fail every 5 s from second 30 on.
fn failing(asked: &'static str, failure: Failure, rounds: u32) -> Vec<Step> {
    let round = |i: u32| Failed(asked, failure, 30.0 + 5.0 * f64::from(i));
    (0..rounds).map(round).collect()
}

/// Five NXDOMAIN in a row and a sixth, a minute after the first.
fn absences_of(asked: &'static str) -> Vec<Step> {
    let mut all = failing(asked, Failure::NXDOMAIN, 5);
    all.push(Failed(asked, Failure::NXDOMAIN, 90.0));
    all
}

fn after(before: &[Step], failures: Vec<Step>, then: &[Step]) -> Vec<Step> {
    [before, &failures, then].concat()
}

#[test]
fn failed_look_up_does_what_the_page_says() {
    let known = [
        Got(WWW, &[("1.1.1.1", 30), ("2.2.2.2", 300)], 0.0),
        Write(0.0),
    ];
    let mut rows = vec![
        row(
            "only for a name that has an entry",
            WWW,
            &[Failed(WWW, Failure::NXDOMAIN, 0.0), Quiet(0.0)],
            &[],
        ),
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
            "and so does one that has expired",
            WWW,
            &after(&known, vec![Failed(WWW, SERVFAIL, 40.0)], &[Expire(49.9)]),
            &["www.example.com. SERVFAIL 1: 1.1.1.1 5@40 2.2.2.2 300@0"],
        ),
        row(
            "but it never moves back: a minimum TTL shorter than the rest changes nothing",
            WWW,
            &after(
                &known,
                vec![Failed(WWW, SERVFAIL, 26.0)],
                &[Next(WWW, Some(30.0))],
            ),
            &["www.example.com. SERVFAIL 1: 1.1.1.1 30@0 2.2.2.2 300@0"],
        )
        .with(|limits| limits.min_ttl = seconds(1)),
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
                absences_of(WILD),
                &[Expire(95.0)],
            ),
            &["a.example.com. - 0: 2.2.2.2 3000@0"],
        ),
        row(
            "the count of failures goes on where the status has it after a restart, and closes nothing",
            WWW,
            &[
                Status(&[(WWW, 4, &[("1.1.1.1", 5, -5)])], 0.0),
                Failed(WWW, Failure::NXDOMAIN, 1.0),
                Expire(HOUR),
            ],
            &["www.example.com. NXDOMAIN 5: 1.1.1.1 5@-5"],
        ),
        row(
            "NXDOMAIN after it for a minute does",
            WWW,
            &after(
                &[Status(&[(WWW, 4, &[("1.1.1.1", 5, -900)])], 0.0)],
                absences_of(WWW),
                &[Expire(HOUR)],
            ),
            &["www.example.com. NXDOMAIN 10:"],
        ),
        row(
            "a count that somebody wrote below zero is none",
            WWW,
            &[Status(&[(WWW, -7, &[("1.1.1.1", 5, 0)])], 0.0)],
            &["www.example.com. - 0: 1.1.1.1 5@0"],
        ),
        row(
            "a count that somebody wrote lets nothing go before it was asked",
            WWW,
            &[
                Status(&[(WWW, i32::MAX, &[("1.1.1.1", 5, -900_000)])], 0.0),
                Expire(HOUR),
                Quiet(HOUR),
            ],
            &["www.example.com. - 2147483647: 1.1.1.1 5@-900000"],
        ),
    ];
    for failure in [SERVFAIL, REFUSED, Failure::Timeout, Failure::BadReply] {
        let reason = failure.reason().into_owned();
        let line = format!("www.example.com. {reason} 5: 1.1.1.1 5@45 2.2.2.2 300@0");
        let lines: &'static [&'static str] = Vec::leak(vec![&*String::leak(line)]);
        rows.push(row(
            "from 5 after SERVFAIL, REFUSED or time-outs addresses stay",
            WWW,
            &after(
                &known,
                failing(WWW, failure, 5),
                &[Expire(24.0 * HOUR - 1.0)],
            ),
            lines,
        ));
        rows.push(row(
            "up to --max-stale after their last success",
            WWW,
            &after(
                &known,
                failing(WWW, failure, 5),
                &[Failed(WWW, failure, 400.0), Expire(24.0 * HOUR)],
            ),
            Vec::leak(vec![&*String::leak(format!(
                "www.example.com. {reason} 6:"
            ))]),
        ));
    }
    check(rows);
}

#[test]
fn family_that_fails_alone_is_no_failure_of_the_name() {
    const BOTH: Answered = &[("1.1.1.1", 30), ("2001:db8::1", 30)];
    use FamilyResult::{Complete, Unknown};
    check(vec![
        row(
            "the addresses of the failed family are extended, the other's live and die apart",
            WWW,
            &[
                Got(WWW, BOTH, 0.0),
                Write(0.0),
                LookedUp(WWW, [Complete, Unknown], 30.0),
                Expire(35.0),
            ],
            &["www.example.com. NOERROR 0: 2001:db8::1 5@30"],
        ),
        row(
            "they stay up to --max-stale after their last success",
            WWW,
            &[
                Got(WWW, BOTH, 0.0),
                Got(WWW, &[("1.1.1.1", 300)], 3599.0),
                LookedUp(WWW, [Complete, Unknown], 3604.0),
                Expire(3609.0),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 300@3599"],
        )
        .with(|limits| limits.max_stale = seconds(3600)),
    ]);
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
            "the wildcard's own entry goes when a name under it is answered",
            WILD,
            &[
                Got(A, TTL, 0.0),
                Absences(A, 5, 30.0),
                Expire(35.0),
                Write(35.0),
                Seen(B, TTL, 40.0),
            ],
            &["b.example.com. - 0: 1.1.1.1 30@40"],
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
        row(
            "with --resolver none the addresses expire",
            WWW,
            &[Got(WWW, TTL, 0.0), Expire(35.0)],
            &["www.example.com. Expired 0:"],
        )
        .with(|limits| limits.lookups = false),
    ]);
}

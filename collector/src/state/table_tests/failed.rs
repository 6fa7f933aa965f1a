//! A look-up fails.

use super::*;

/// Rounds that fail every 5 s from second 30 on.
fn failing(asked: &'static str, failure: Failure, rounds: u32) -> Vec<Step> {
    let round = |i: u32| Failed(asked, failure, 30.0 + 5.0 * f64::from(i));
    (0..rounds).map(round).collect()
}

fn after(before: &[Step], failures: Vec<Step>, then: &[Step]) -> Vec<Step> {
    [before, &failures, then].concat()
}

#[test]
fn a_failed_look_up_does_what_the_page_says() {
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
            "the failure of another name, as of a search path, never counts",
            WILD,
            &[
                Got(A, &[("1.1.1.1", 30)], 0.0),
                Write(0.0),
                Failed(
                    "a.example.com.team-a.svc.cluster.local.",
                    Failure::NXDOMAIN,
                    1.0,
                ),
                Failed(B, Failure::NXDOMAIN, 1.0),
                Quiet(1.0),
            ],
            &["a.example.com. NOERROR 0: 1.1.1.1 30@0"],
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
            "each in its time",
            WWW,
            &after(&known, failing(WWW, Failure::NXDOMAIN, 5), &[Expire(55.0)]),
            &["www.example.com. NXDOMAIN 5: 2.2.2.2 300@0"],
        ),
        row(
            "an entry without addresses is removed",
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
            &[],
        ),
        row(
            "a success ends the row of failures, and the next begins at one",
            WWW,
            &after(
                &known,
                failing(WWW, Failure::NXDOMAIN, 4),
                &[
                    Got(WWW, &[("1.1.1.1", 30)], 46.0),
                    Failed(WWW, Failure::NXDOMAIN, 76.0),
                    Expire(84.0),
                ],
            ),
            &["www.example.com. NXDOMAIN 1: 1.1.1.1 5@76 2.2.2.2 300@0"],
        ),
        row(
            "four NXDOMAIN and then a broken server let nothing go",
            WWW,
            &after(
                &known,
                failing(WWW, Failure::NXDOMAIN, 4),
                &[Failed(WWW, SERVFAIL, 50.0), Expire(HOUR)],
            ),
            &["www.example.com. SERVFAIL 5: 1.1.1.1 5@45 2.2.2.2 300@0"],
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
                &[Expire(55.0)],
            ),
            &["a.example.com. NOERROR 0: 2.2.2.2 3000@0"],
        ),
        row(
            "the count goes on where the status has it after a restart",
            WWW,
            &[
                Status(&[(WWW, 4, &[("1.1.1.1", 5, -5)])], 0.0),
                Failed(WWW, Failure::NXDOMAIN, 1.0),
                Expire(4.9),
            ],
            &["www.example.com. NXDOMAIN 5: 1.1.1.1 5@-5"],
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
            &[],
        ));
    }
    check(rows);
}

#[test]
fn a_family_that_fails_alone_is_no_failure_of_the_name() {
    const BOTH: Answered = &[("1.1.1.1", 30), ("2001:db8::1", 30)];
    check(vec![
        row(
            "the addresses of the failed family are extended, the other's live and die apart",
            WWW,
            &[
                Got(WWW, BOTH, 0.0),
                Write(0.0),
                NoData(WWW, Family::V4, 30.0),
                FamilyFailed(WWW, Family::V6, 30.0),
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
                FamilyFailed(WWW, Family::V6, 3599.0),
                FamilyFailed(WWW, Family::V6, 3604.0),
                Expire(3609.0),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 300@3599"],
        )
        .with(|limits| limits.max_stale = seconds(3600)),
    ]);
}

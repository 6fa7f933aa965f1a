//! Removal of addresses.

use super::*;

const KNOWN: Step = Got(WWW, &[("1.1.1.1", 30)], 0.0);
const KEPT: &[&str] = &["www.example.com. NOERROR 0: 1.1.1.1 30@0"];
const GONE: &[&str] = &["www.example.com. NoAddress 0:"];

#[test]
fn address_after_repeated_absences_leaves_at_expiry_and_grace() {
    check(vec![
        row(
            "the earliest address is asked for when it expires, and once",
            WWW,
            &[
                Got(WWW, &[("1.1.1.1", 30), ("2.2.2.2", 60)], 0.0),
                Next(WWW, Some(30.0)),
                Absences(WWW, 5, 30.0),
                Next(WWW, Some(60.0)),
                Expire(35.0),
            ],
            &["www.example.com. NoAddress 0: 2.2.2.2 60@0"],
        ),
        row(
            "and then it is removed",
            WWW,
            &[
                Status(&[(WWW, 0, &[("1.1.1.1", 30, -500)])], 0.0),
                Absences(WWW, 5, 431.0),
                Expire(435.0),
            ],
            GONE,
        ),
        row(
            "with --resolver none addresses leave at expiry and grace",
            WWW,
            &[KNOWN, Expire(35.0)],
            &["www.example.com. Expired 0:"],
        )
        .with(|limits| limits.lookups = false),
        row(
            "with --resolver none each lives, once, one more stored TTL + grace after a restart",
            WWW,
            &[
                Status(&[(WWW, 0, &[("1.1.1.1", 30, -500)])], 0.0),
                Status(&[(WWW, 0, &[("1.1.1.1", 30, -500)])], 20.0),
                Expire(934.9),
            ],
            &["www.example.com. - 0: 1.1.1.1 30@-500"],
        )
        .with(|limits| limits.lookups = false),
        row(
            "and no longer",
            WWW,
            &[
                Status(&[(WWW, 0, &[("1.1.1.1", 30, -500)])], 0.0),
                Status(&[(WWW, 0, &[("1.1.1.1", 30, -500)])], 20.0),
                Expire(935.0),
            ],
            &["www.example.com. Expired 0:"],
        )
        .with(|limits| limits.lookups = false),
    ]);
}

#[test]
fn clock_that_is_set_loses_nothing_and_keeps_nothing_for_long() {
    check(vec![
        row(
            "future times clamp to now",
            WWW,
            &[
                Status(&[(WWW, 0, &[("1.1.1.1", 30, 100_000)])], 0.0),
                Next(WWW, Some(930.0)),
            ],
            &["www.example.com. - 0: 1.1.1.1 30@0"],
        ),
        row(
            "the clock goes back an hour: the name is asked when its TTL is over by the new time",
            WWW,
            &[KNOWN, Write(0.0), Gap(-HOUR), Next(WWW, Some(30.0 - HOUR))],
            &["www.example.com. NOERROR 0: 1.1.1.1 30@-3600"],
        ),
        row(
            "and an address that was kept after a gap goes when its TTL is over by the new time",
            WWW,
            &[KNOWN, Gap(1000.0), Gap(-HOUR), Expire(35.0 - HOUR)],
            &["www.example.com. Expired 0:"],
        )
        .with(|limits| limits.lookups = false),
    ]);
}

#[test]
fn foreign_status_revives_no_removed_and_drops_no_live_address() {
    check(vec![
        row(
            "one that still shows a removed address does not bring it back",
            WWW,
            &[
                KNOWN,
                Write(1.0),
                Absences(WWW, 5, 30.0),
                Expire(35.0),
                Status(&[(WWW, 0, &[("1.1.1.1", 30, 0)])], 35.1),
            ],
            GONE,
        ),
        row(
            "an unexpired address that vanished from it is written back",
            WWW,
            &[KNOWN, Write(0.0), Status(&[], 1.0)],
            KEPT,
        ),
    ]);
}

#[test]
fn name_under_a_wildcard_is_looked_up_while_clients_ask_for_it() {
    const TTL: Answered = &[("1.1.1.1", 30)];
    check(vec![
        row(
            "no pod has asked for --wildcard-idle: no longer refreshed, and it leaves",
            WILD,
            &[
                Seen(A, TTL, 0.0),
                Got(A, TTL, 30.0),
                Next(A, None),
                Expire(65.0),
            ],
            &["*.example.com. Expired 0:"],
        )
        .with(|limits| limits.wildcard_idle = seconds(60)),
        row(
            "our own look-ups are not sightings, not even once they are written",
            WILD,
            &[
                Seen(A, TTL, 0.0),
                Write(0.0),
                Got(A, TTL, 30.0),
                Write(30.0),
                Status(&[(A, 0, &[("1.1.1.1", 30, 30)])], 31.0),
                Next(A, None),
            ],
            &["a.example.com. - 0: 1.1.1.1 30@30"],
        )
        .with(|limits| limits.wildcard_idle = seconds(60)),
        row(
            "after a restart nobody knows who asked meanwhile: it is looked up once at least",
            WILD,
            &[
                Status(&[(A, 0, &[("1.1.1.1", 30, -900_000)])], 0.0),
                Next(A, Some(930.0 - 900_000.0)),
                Expire(1.0),
            ],
            &["a.example.com. - 0: 1.1.1.1 30@-900000"],
        ),
        row(
            "the wildcard's own name, and a regular one, are looked up whoever asks",
            WILD,
            &[
                Got(WILD, TTL, 0.0),
                Got(WILD, TTL, HOUR),
                Next(WILD, Some(HOUR + 30.0)),
            ],
            &["*.example.com. NOERROR 0: 1.1.1.1 30@3600"],
        )
        .with(|limits| limits.wildcard_idle = seconds(60)),
    ]);
}

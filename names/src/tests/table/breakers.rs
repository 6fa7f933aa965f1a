//! Limits and eviction.

use super::*;
use crate::{Eviction, observation::Observation};

#[test]
fn circuit_breakers_do_what_the_page_says() {
    fn two(limits: &mut Limits) {
        limits.addresses_per_name = 2;
        limits.names_per_wildcard = 2;
    }
    check(vec![
        row(
            "at most so many addresses a name: the oldest-seen go, whatever their TTL",
            WWW,
            &[
                Seen(WWW, &[("1.1.1.1", 3600)], 0.0),
                Seen(WWW, &[("2.2.2.2", 60)], 1.0),
                Seen(WWW, &[("1.1.1.1", 5)], 2.0),
                Seen(WWW, &[("3.3.3.3", 60)], 3.0),
            ],
            &["www.example.com. NOERROR 0: 1.1.1.1 3600@0 3.3.3.3 60@3"],
        )
        .with(two),
        row(
            "of equally old ones the first by address, so that replicas agree",
            WWW,
            &[Seen(
                WWW,
                &[("3.3.3.3", 60), ("1.1.1.1", 60), ("2.2.2.2", 60)],
                0.0,
            )],
            &["www.example.com. NOERROR 0: 2.2.2.2 60@0 3.3.3.3 60@0"],
        )
        .with(two),
        row(
            "the wildcard's own name is none of them",
            WILD,
            &[
                Seen(WILD, &[("9.9.9.9", 60)], 0.0),
                Seen(A, &[("1.1.1.1", 60)], 1.0),
                Seen(B, &[("1.1.1.1", 60)], 2.0),
                Seen("c.example.com.", &[("1.1.1.1", 60)], 3.0),
            ],
            &[
                "*.example.com. NOERROR 0: 9.9.9.9 60@0",
                "b.example.com. - 0: 1.1.1.1 60@2",
                "c.example.com. - 0: 1.1.1.1 60@3",
            ],
        )
        .with(two),
        row(
            "the object's size beats the counts, and the wildcard's own name goes last",
            WILD,
            &[
                Seen(WILD, &[("9.9.9.9", 60)], 0.0),
                Seen(A, &[("1.1.1.1", 60)], 1.0),
                Seen(B, &[("1.1.1.1", 60)], 2.0),
            ],
            &[
                "*.example.com. NOERROR 0: 9.9.9.9 60@0",
                "b.example.com. - 0: 1.1.1.1 60@2",
            ],
        )
        .with(|limits| limits.object_size = 8),
        row(
            "a status of another writer is cut down, too",
            WWW,
            &[Status(
                &[(
                    WWW,
                    0,
                    &[("1.1.1.1", 60, 0), ("2.2.2.2", 60, 9), ("3.3.3.3", 60, 5)],
                )],
                9.0,
            )],
            &["www.example.com. - 0: 2.2.2.2 60@9 3.3.3.3 60@5"],
        )
        .with(two),
        row(
            "never programmed, whatever the rule: what the guards refuse is removed from a status",
            WWW,
            &[Status(
                &[(
                    WWW,
                    0,
                    &[
                        ("0.0.0.0", 60, 0),
                        ("0.1.2.3", 60, 0),
                        ("127.0.0.1", 60, 0),
                        ("169.254.169.254", 60, 0),
                        ("224.0.0.1", 60, 0),
                        ("255.255.255.255", 60, 0),
                        ("168.63.129.16", 60, 0),
                        ("100.100.100.200", 60, 0),
                        ("192.0.0.192", 60, 0),
                        ("::", 60, 0),
                        ("::1", 60, 0),
                        ("fe80::1", 60, 0),
                        ("ff02::1", 60, 0),
                        ("fd00:ec2::254", 60, 0),
                        ("::ffff:127.0.0.1", 60, 0),
                        ("64:ff9b::7f00:1", 60, 0),
                        ("2002:7f00:1::", 60, 0),
                        ("10.0.0.1", 60, 0),
                        ("192.168.0.1", 60, 0),
                    ],
                )],
                0.0,
            )],
            &["www.example.com. - 0: 10.0.0.1 60@0 192.168.0.1 60@0"],
        ),
    ]);
}

/// An answer of so many addresses, different ones for each second.
fn many(asked: &str, count: u32, second: f64) -> Observation {
    let mut many = answer(asked, &[], second);
    many.addresses = (0..count)
        .map(|i| 0x0b00_0000 + second as u32 * 0x1_0000 + i)
        .map(|i| (IpAddr::from(i.to_be_bytes()), 3600))
        .collect();
    many
}

#[test]
fn store_that_takes_no_object_of_this_size_gets_a_tenth_less() {
    let mut known = Known::new(WILD);
    known.hear(&many(WILD, 10, 0.0));
    known.hear(&many(A, 490, 1.0));
    known.hear(&many(B, 500, 2.0));
    known.write(2.0);
    let effect = Eviction::new(&mut known.state, &known.limits).shrink();
    assert!((95..=105).contains(&effect.evicted_addresses), "{effect:?}");
    let left = |known: &Known, asked| known.state.list().addresses_of(&name(asked));
    assert_eq!(left(&known, B), 500, "the oldest-seen go");
    assert_eq!(left(&known, WILD), 10, "and the wildcard's own last of all");
    // The object stays below that size.
    let most = known.state.list().addresses();
    known.hear(&many(A, 490, 4.0));
    assert!(known.state.list().addresses() <= most);
    // Even a store that refuses everything does not empty it.
    for _ in 0..100 {
        Eviction::new(&mut known.state, &known.limits).shrink();
    }
    assert!(
        known.state.list().addresses() > 250,
        "{}",
        known.state.list().addresses()
    );
}

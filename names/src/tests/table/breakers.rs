//! Limits and eviction.

use super::*;

#[test]
fn eviction_at_a_limit_takes_the_oldest_seen_first() {
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
    ]);
}

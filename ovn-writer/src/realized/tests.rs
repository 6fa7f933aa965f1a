use super::*;
use crate::address_set::NORTHBOUND;

#[test]
fn only_a_watched_change_is_followed_soon_after_another() {
    let (_realizer, handle) = Realizer::new(&RealizedOptions {
        northbound: "unix:/nowhere/nb.sock".parse().unwrap(),
        client: ClientOptions::new(NORTHBOUND),
        southbound: None,
        vswitchd: None,
    });
    let mut samples = Samples::new(handle, Duration::from_secs(10));
    let start = std::time::Instant::now();
    for (millis, is_watched, has_ticket, is_followed) in [
        (0, false, false, true),
        (50, true, false, false),
        (100, true, true, true),
        (150, true, false, false),
        (5_000, false, false, false),
        (10_100, false, false, true),
    ] {
        let at = start + Duration::from_millis(millis);
        let committed = Committed {
            since: None,
            at,
            evidence: Evidence {
                set: "a1".into(),
                member: None,
            },
        };
        let ticket = samples.committed(committed, is_watched);
        assert_eq!(ticket.is_some(), has_ticket, "{millis}");
        assert_eq!(samples.last == Some(at), is_followed, "{millis}");
    }
}

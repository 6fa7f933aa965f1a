//! Bounded memory, and what leaves without an eviction.

use super::*;

#[test]
fn retention_alone_keeps_at_most_100_addresses_of_a_name() {
    let mut known = Known::new("www.example.com");
    known.limits.retain = Duration::from_secs(3600);
    for i in 0..150_u8 {
        let ip = format!("1.1.1.{i}");
        known.observe("www.example.com", &[(&ip, 30)], f64::from(i));
    }
    assert_eq!(known.expire(149.0), 0);
    // The 101st is over, with its grace.
    let next = known.state.list().next_removal(&known.limits);
    assert_eq!(next, Some(at(135.0)));
    let mut limit = |seconds| known.state.evict_retained(at(seconds), &known.limits);
    assert_eq!(limit(134.9), []);
    let gone: Vec<_> = limit(137.0).into_iter().map(|(_, ip)| ip).collect();
    let oldest = [0, 1, 2].map(|i| std::net::IpAddr::from([1, 1, 1, i]));
    assert_eq!(gone, oldest);
    assert_eq!(limit(1_000.0).len(), 47);
    assert_eq!(known.expire(3_700.0), 51);
}

#[test]
fn standby_forgets_what_leader_removed_once_its_time_is_over() {
    let mut known = Known::new("www.example.com");
    known.limits.lookups = true;
    known
        .observe("www.example.com", &[("1.1.1.1", 10)], 0.0)
        .write(0.0);
    known.observe("www.example.com", &[("2.2.2.2", 300)], 5.0);
    let removed = Stored::new(&status(serde_json::json!([])), &known.state);
    for (second, left) in [(14.9, 2), (15.0, 1), (309.9, 1), (310.0, 0)] {
        let limits = &known.limits;
        known
            .state
            .apply_leader_removals(&removed, at(second), limits);
        assert_eq!(known.state.list().addresses(), left, "{second}");
    }
}

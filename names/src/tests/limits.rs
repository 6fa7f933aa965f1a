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

/// Each name has one address, so its size is 4.
fn observe_names(known: &mut Known, numbers: std::ops::Range<u16>) {
    for i in numbers {
        let name = format!("n{i}.example.com");
        let answer = answer(&name, &[("1.1.1.1", 300)], f64::from(i) / 10.0);
        known.state.observe(&answer, &known.limits);
    }
}

#[test]
fn object_beyond_its_size_loses_what_is_necessary_and_one_refused_a_tenth() {
    let mut known = Known::new("*.example.com");
    known.limits.object_size = 400;
    observe_names(&mut known, 0..110);
    let effect = known.enforce();
    assert!(effect.urgent);
    assert_eq!(effect.names_gone.len(), 10);
    let shrunk = Eviction::new(&mut known.state, &known.limits).shrink();
    assert_eq!(shrunk.names_gone.len(), 10);
    // From now on its limit is 360. An eighth more is borne until the next write.
    for (until, is_over) in [(211, false), (212, true)] {
        observe_names(&mut known, 200..until);
        let size = known.state.size();
        assert_eq!(
            size.is_over_limit(known.state.list(), &known.limits),
            is_over
        );
    }
    known.enforce();
    assert_eq!(known.state.list().names().count(), 90);
}

#[test]
fn name_with_an_eighth_more_addresses_than_its_limit_loses_the_oldest_at_once() {
    let mut known = Known::new("www.example.com");
    known.limits.addresses_per_name = 8;
    for (i, left) in [1, 2, 3, 4, 5, 6, 7, 8, 9, 8].into_iter().enumerate() {
        let ip = format!("1.1.1.{i}");
        let answer = answer("www.example.com", &[(&ip, 300)], i as f64);
        known.state.observe(&answer, &known.limits);
        assert_eq!(known.state.list().addresses(), left);
    }
}

//! The order of eviction when a limit is reached.

use super::*;

#[test]
fn full_name_loses_its_oldest_seen_address() {
    let mut known = Known::new("www.example.com");
    known.limits.addresses_per_name = 2;
    for (second, ip) in ["1.1.1.1", "2.2.2.2", "1.1.1.1", "3.3.3.3"]
        .iter()
        .enumerate()
    {
        known.observe("www.example.com", &[(ip, 3600)], second as f64);
    }
    known.write(4.0);
    assert_eq!(
        known.status(),
        ["www.example.com. 1.1.1.1 3600@2 3.3.3.3 3600@3"]
    );
}

#[test]
fn object_of_many_names_stays_under_its_size() {
    let mut known = Known::new("*.example.com");
    known.limits.object_size = 84;
    let mut evicted = 0;
    for i in 0..100_u32 {
        let observation = answer(
            &format!("n{i}.example.com"),
            &[("1.1.1.1", 3600)],
            f64::from(i),
        );
        evicted += known.hear(&observation).evicted_addresses;
    }
    assert_eq!(evicted, 79);
    known.write(100.0);
    assert_eq!(
        known.status()[0],
        "n79.example.com. 1.1.1.1 3600@79",
        "the oldest-seen went"
    );
}

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

//! The order of eviction when a limit is reached.

use super::*;

#[test]
fn a_full_name_loses_its_oldest_seen_address() {
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
fn a_full_wildcard_loses_a_name_of_the_client_that_brought_most() {
    let mut known = Known::new("*.example.com");
    known.limits.names_per_wildcard = 3;
    let mut ask = |label: &str, client: &str, second: f64| {
        let mut observation = answer(
            &format!("{label}.example.com"),
            &[("1.1.1.1", 3600)],
            second,
        );
        observation.client = Some(client.parse().unwrap());
        known.hear(&observation)
    };
    ask("honest", "10.0.0.1", 0.0);
    ask("x1", "10.0.0.2", 1.0);
    ask("x2", "10.0.0.2", 2.0);
    assert_eq!(ask("x3", "10.0.0.2", 3.0).evicted_names, 1);
    assert_eq!(ask("x4", "10.0.0.2", 4.0).evicted_names, 1);
    known.write(4.0);
    let names: Vec<_> = known
        .stored
        .resolved_names
        .iter()
        .map(|entry| entry.dns_name.as_str())
        .collect();
    assert_eq!(
        names,
        ["honest.example.com.", "x3.example.com.", "x4.example.com."]
    );
}

#[test]
fn an_object_stays_under_its_size() {
    let mut known = Known::new("*.example.com");
    known.limits.object_bytes = 20_000;
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
    assert!(serde_json::to_vec(&known.stored).unwrap().len() < 20_000);
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
    let next = known.memory.list().next_removal(&known.limits);
    assert_eq!(next, Some(at(135.0)));
    let mut limit = |seconds| known.memory.limit_retained(at(seconds), &known.limits);
    assert_eq!(limit(134.9), []);
    let gone: Vec<_> = limit(137.0).into_iter().map(|(_, ip)| ip).collect();
    let oldest = [0, 1, 2].map(|i| std::net::IpAddr::from([1, 1, 1, i]));
    assert_eq!(gone, oldest);
    assert_eq!(limit(1_000.0).len(), 47);
    assert_eq!(known.expire(3_700.0), 51);
}

//! Which answers the cache keeps, and for how long.

use std::collections::BTreeMap;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn keep(remembered: &AnswerCache, name: &str, ip: &str, ttl: u32) {
    keep_at(remembered, name, ip, ttl, 0);
}

fn keep_at(remembered: &AnswerCache, name: &str, ip: &str, ttl: u32, later: u64) {
    let addresses = [(ip.parse().unwrap(), ttl)];
    keep_all(
        remembered,
        name,
        &addresses,
        NOW + Duration::from_secs(later),
    );
}

fn keep_all(remembered: &AnswerCache, name: &str, addresses: &[(IpAddr, u32)], at: Timestamp) {
    remembered.insert(
        &Answer {
            name: &dns::Name::from_text(name).unwrap(),
            family: Family::V4,
            addresses,
            at,
            client: None,
        },
        None,
    );
}

fn of_size(names: usize) -> AnswerCache {
    AnswerCache::new(names, Duration::from_secs(24 * 3600))
}

fn recall(remembered: &AnswerCache, wanted: &str, later: u64) -> Vec<String> {
    let now = NOW + Duration::from_secs(later);
    let wanted = DnsName::parse(wanted).unwrap();
    let mut names: BTreeMap<DnsName, Vec<String>> = BTreeMap::new();
    for observation in remembered.recall(&wanted, now, Duration::from_secs(5)) {
        let ips = observation.addresses.iter().map(|(ip, _)| ip.to_string());
        names.entry(observation.name).or_default().extend(ips);
    }
    let texts = names.into_iter();
    texts
        .map(|(name, ips)| format!("{name} {}", ips.join(" ")))
        .collect()
}

#[test]
fn rule_that_comes_later_finds_what_pods_use_already() {
    let remembered = of_size(100);
    keep(&remembered, "www.example.com", "1.1.1.1", 30);
    keep(&remembered, "api.example.com", "2.2.2.2", 30);
    keep(&remembered, "a.b.example.com", "3.3.3.3", 30);
    keep(&remembered, "a_b.example.com", "4.4.4.4", 30);
    assert_eq!(
        recall(&remembered, "www.example.com", 0),
        ["www.example.com. 1.1.1.1"]
    );
    assert_eq!(
        recall(&remembered, "*.example.com", 0),
        ["api.example.com. 2.2.2.2", "www.example.com. 1.1.1.1"]
    );
    assert!(recall(&remembered, "other.example.com", 0).is_empty());
}

#[test]
fn every_address_that_some_pod_still_uses_is_found() {
    let remembered = of_size(100);
    let www = "www.example.com";
    keep_at(&remembered, www, "1.1.1.1", 300, 0);
    keep_at(&remembered, www, "2.2.2.2", 10, 5);
    keep_at(&remembered, www, "1.1.1.1", 3, 8);
    assert_eq!(
        recall(&remembered, www, 8),
        ["www.example.com. 1.1.1.1 2.2.2.2"]
    );
    keep_at(&remembered, www, "3.3.3.3", 30, 20);
    assert_eq!(
        recall(&remembered, www, 20),
        ["www.example.com. 1.1.1.1 3.3.3.3"]
    );
    assert_eq!(recall(&remembered, www, 299), ["www.example.com. 1.1.1.1"]);
    assert!(recall(&remembered, www, 300).is_empty());
    for i in 0..1000 {
        keep_at(
            &remembered,
            www,
            &format!("10.0.{}.{}", i / 250, i % 250),
            300,
            301,
        );
    }
    let found = recall(&remembered, www, 302);
    assert_eq!(found[0].split(' ').count(), 1 + MAX_ADDRESSES);
    assert!(found[0].contains(" 10.0.3.249"), "the newest stays");
}

#[test]
fn least_recently_seen_goes_first() {
    let remembered = of_size(32);
    for i in 0..10_000 {
        let name = format!("n{i}.example.com");
        keep_at(&remembered, &name, "1.1.1.1", 30, i);
        keep_at(&remembered, "steady.example.com", "2.2.2.2", 30, i);
    }
    assert!(remembered.len() <= 64);
    let last = 9_999;
    assert_eq!(recall(&remembered, "steady.example.com", last).len(), 1);
    assert_eq!(recall(&remembered, "n9999.example.com", last).len(), 1);
    assert!(recall(&remembered, "n0.example.com", 0).is_empty());
}

#[test]
fn random_names_of_one_client_evict_names_of_one_shard_at_most() {
    let remembered = of_size(65_536);
    for i in 0..1_000 {
        keep(&remembered, &format!("www.n{i}.example"), "1.1.1.1", 300);
    }
    for i in 0..100_000 {
        keep(&remembered, &format!("n{i}.s3.example.com"), "2.2.2.2", 300);
    }
    let names = (0..1_000).map(|i| format!("www.n{i}.example"));
    let left = names.filter(|name| !recall(&remembered, name, 1).is_empty());
    let left = left.count();
    assert!(left > 900, "{left}");
    assert!(recall(&remembered, "*.s3.example.com", 1).len() >= 2048);
}

#[test]
fn answer_kept_in_this_second_is_not_new_and_any_other_is() {
    let remembered = of_size(100);
    let name = dns::Name::from_text("www.example.com").unwrap();
    let new = |name: &dns::Name, family, message: &[u8], later| {
        let at = NOW + Duration::from_millis(later);
        remembered.is_new(name.into(), family, message, at)
    };
    let mark = new(&name, Family::V4, b"xxanswer", 0).unwrap();
    assert!(
        new(&name, Family::V4, b"xxanswer", 0).is_some(),
        "it was only asked about"
    );
    let answer = Answer {
        name: &name,
        family: Family::V4,
        addresses: &[("1.1.1.1".parse().unwrap(), 30)],
        at: NOW,
        client: None,
    };
    remembered.insert(&answer, Some(mark));
    let again = new(&name, Family::V4, b"yyanswer", 999);
    assert!(again.is_none(), "the identifier says nothing");
    assert!(new(&name, Family::V4, b"xxanswer", 1000).is_some());
    assert!(new(&name, Family::V4, b"xxanother", 0).is_some());
    assert!(new(&name, Family::V6, b"xxanswer", 0).is_some());
    let other = dns::Name::from_text("other.example.com").unwrap();
    assert!(new(&other, Family::V4, b"xxanswer", 0).is_some());
    // A kept answer without a message does not count as that message.
    remembered.insert(&answer, None);
    assert!(new(&name, Family::V4, b"xxanswer", 0).is_some());
    assert_eq!(
        recall(&remembered, "www.example.com", 0),
        ["www.example.com. 1.1.1.1"]
    );
}

#[test]
fn names_asked_for_in_most_seconds_come_first_and_once() {
    let remembered = of_size(100);
    let ask = |name: &str, family: Family, seconds: u64| {
        let name = dns::Name::from_text(name).unwrap();
        for second in 0..seconds {
            let at = NOW + Duration::from_secs(second);
            // The same answer again in one second is known.
            for _ in 0..2 {
                let mark = remembered.is_new((&name).into(), family, &[0; 20], at);
                let answer = Answer {
                    name: &name,
                    family,
                    addresses: &[("192.0.2.1".parse().unwrap(), 30)],
                    at,
                    client: Some("10.0.0.1".parse().unwrap()),
                };
                if mark.is_some() {
                    remembered.insert(&answer, mark);
                }
            }
        }
    };
    ask("often.example.com", Family::V4, 9);
    ask("often.example.com", Family::V6, 8);
    ask("seldom.example.com", Family::V4, 2);
    ask("more.example.com", Family::V6, 5);
    ask("with-a-rule.example.com", Family::V4, 7);
    keep(&remembered, "of-a-rule.example.com", "192.0.2.1", 30);
    let is_counted = |name: &dns::Name, addresses: &[IpAddr]| {
        addresses.len() == 1 && !name.to_string().starts_with("with-a-rule")
    };
    let found = remembered.most_asked(3, is_counted);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.name, it.seconds_asked))
        .collect();
    let expected = [
        ("often.example.com.", 9),
        ("more.example.com.", 5),
        ("seldom.example.com.", 2),
    ];
    assert_eq!(found, expected);
}

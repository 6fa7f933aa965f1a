//! What is remembered, and for how long.

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn keep(remembered: &Remembered, name: &str, ip: &str, ttl: u32) {
    keep_at(remembered, name, ip, ttl, 0);
}

fn keep_at(remembered: &Remembered, name: &str, ip: &str, ttl: u32, later: u64) {
    let name = dns::Name::from_text(name).unwrap();
    let at = NOW + Duration::from_secs(later);
    remembered.keep(&name, Family::V4, &[(ip.parse().unwrap(), ttl)], at, None);
}

fn recall(remembered: &Remembered, wanted: &str, later: u64) -> Vec<String> {
    let now = NOW + Duration::from_secs(later);
    let found = remembered.recall(
        [&DnsName::parse(wanted).unwrap()],
        now,
        Duration::from_secs(5),
    );
    let of_name = |found: &Observation| {
        let addresses = found.addresses.iter();
        let ips: Vec<_> = addresses.map(|(ip, _)| ip.to_string()).collect();
        format!("{} {}", found.name, ips.join(" "))
    };
    let mut texts: Vec<_> = found.iter().map(of_name).collect();
    texts.sort();
    texts
}

#[test]
fn a_rule_that_comes_later_finds_what_pods_use_already() {
    let remembered = Remembered::new(100);
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
fn what_is_expired_is_forgotten() {
    let remembered = Remembered::new(100);
    keep(&remembered, "www.example.com", "1.1.1.1", 30);
    keep(&remembered, "api.example.com", "2.2.2.2", 0);
    assert_eq!(
        recall(&remembered, "*.example.com", 4).len(),
        2,
        "the floor of TTLs holds"
    );
    assert_eq!(
        recall(&remembered, "*.example.com", 29),
        ["www.example.com. 1.1.1.1"]
    );
    assert!(recall(&remembered, "*.example.com", 30).is_empty());
}

#[test]
fn every_address_that_some_pod_still_uses_is_found() {
    let remembered = Remembered::new(100);
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
        ["www.example.com. 3.3.3.3 1.1.1.1"]
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
    assert!(found[0].contains(" 10.0.3.249 "), "the newest stays");
}

#[test]
fn the_least_recently_seen_goes_first() {
    let remembered = Remembered::new(32);
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
fn families_and_clients_are_told_apart() {
    let remembered = Remembered::new(64);
    let name = dns::Name::from_text("www.example.com").unwrap();
    let clients = [Some("10.0.0.7"), Some("fd00::7"), None];
    for client in clients.map(|client| client.map(|text| text.parse::<IpAddr>().unwrap())) {
        let v4 = [("1.1.1.1".parse().unwrap(), 30)];
        let v6 = [
            ("2001:db8::1".parse().unwrap(), 40),
            ("2.2.2.2".parse().unwrap(), 50),
        ];
        remembered.keep(&name, Family::V4, &v4, NOW, client);
        remembered.keep(&name, Family::V6, &v6, NOW, client);
        let wanted = DnsName::parse("www.example.com").unwrap();
        let found = remembered.recall([&wanted], NOW, Duration::ZERO);
        assert_eq!(found.len(), 2);
        for (observation, (family, addresses)) in found
            .iter()
            .zip([(Family::V4, &v4[..]), (Family::V6, &v6[..])])
        {
            assert_eq!(observation.family, family);
            assert_eq!(observation.addresses.as_slice(), addresses);
            assert_eq!((observation.client, observation.at), (client, NOW));
        }
    }
}

#[test]
fn a_long_name_has_room_for_fewer_addresses_and_the_longest_is_not_kept() {
    let remembered = Remembered::new(64);
    let label = "a".repeat(60);
    let name = |labels: usize| format!("{}.b", vec![label.as_str(); labels].join("."));
    let many: Vec<_> = (1..=40)
        .map(|i| (IpAddr::from([10, 0, 0, i]), 30))
        .collect();
    for (labels, kept) in [(1, 19), (3, 3), (4, 0)] {
        let text = name(labels);
        let wire = dns::Name::from_text(&text).unwrap();
        remembered.keep(&wire, Family::V4, &many, NOW, None);
        let found = remembered.recall([&DnsName::parse(&text).unwrap()], NOW, Duration::ZERO);
        let addresses = found.first().map_or(0, |found| found.addresses.len());
        assert_eq!(addresses, kept, "{labels} labels");
    }
}

#[test]
fn an_answer_is_read_whole_or_not_at_all_while_others_write() {
    const NAMES: u8 = 40;
    let remembered = Remembered::new(4);
    let write = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        for at in 0..20_000 {
            let number = random.u8(..NAMES);
            let name = dns::Name::from_text(&format!("n{number}.example.com")).unwrap();
            let count = random.u8(1..9);
            let addresses = (1..=count).map(|i| (IpAddr::from([10, number, i, i]), 1));
            let addresses: Vec<_> = addresses.collect();
            let client = IpAddr::from([10, number, 0, 0]);
            let at = NOW + Duration::from_secs(2 * at);
            remembered.keep(&name, Family::V4, &addresses, at, Some(client));
        }
    };
    let read = || {
        let (mut found, all) = (0, DnsName::parse("*.example.com").unwrap());
        for _ in 0..2_000 {
            for observation in remembered.recall([&all], NOW, Duration::ZERO) {
                found += 1;
                let number: u8 = observation.name.as_str()[1..]
                    .split('.')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
                let client = IpAddr::from([10, number, 0, 0]);
                assert_eq!(observation.client, Some(client));
                for (i, (address, ttl)) in (1..).zip(&observation.addresses) {
                    assert_eq!((*address, *ttl), (IpAddr::from([10, number, i, i]), 1));
                }
            }
        }
        found
    };
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|seed| scope.spawn(move || write(seed)));
        let found = read();
        for writer in writers {
            writer.join().unwrap();
        }
        assert!(found + read() > 0);
    });
}

#[test]
fn nothing_is_remembered_with_a_size_of_0() {
    let remembered = Remembered::new(0);
    keep(&remembered, "www.example.com", "1.1.1.1", 30);
    assert!(recall(&remembered, "www.example.com", 0).is_empty());
    assert!(remembered.is_empty() && !remembered.is_enabled());
}

#[test]
fn thousands_of_wildcards_are_recalled_at_once() {
    let remembered = Remembered::new(65_536);
    for i in 0..40_000 {
        let name = format!("n{i}.t{}.example.com", i % 10_000);
        keep(&remembered, &name, "1.1.1.1", 300);
    }
    let wildcards: Vec<_> = (0..8_000)
        .map(|i| DnsName::parse(&format!("*.t{i}.example.com")).unwrap())
        .collect();
    let found = remembered.recall(&wildcards, NOW, Duration::ZERO);
    assert!(found.len() > 30_000, "{}", found.len());
    let wildcards: HashSet<_> = wildcards.into_iter().collect();
    assert!(
        found
            .iter()
            .all(|it| wildcards.contains(&it.name.wildcard().unwrap()))
    );
}

#[test]
fn what_was_seen_before_the_clock_was_set_back_counts_as_seen_now() {
    let remembered = Remembered::new(64);
    keep_at(&remembered, "www.example.com", "1.1.1.1", 30, 3600);
    let wanted = DnsName::parse("www.example.com").unwrap();
    let found = remembered.recall([&wanted], NOW, Duration::ZERO);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].at, NOW);
}

#[test]
fn what_was_kept_in_this_second_is_not_new_and_anything_else_is() {
    let remembered = Remembered::new(100);
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
    let address = ["1.1.1.1".parse().unwrap()].map(|ip| (ip, 30));
    remembered.keep_marked(mark, &name, Family::V4, &address, NOW, None);
    assert_eq!(
        new(&name, Family::V4, b"yyanswer", 999),
        None,
        "the identifier says nothing"
    );
    assert!(new(&name, Family::V4, b"xxanswer", 1000).is_some());
    assert!(new(&name, Family::V4, b"xxanother", 0).is_some());
    assert!(new(&name, Family::V6, b"xxanswer", 0).is_some());
    let other = dns::Name::from_text("other.example.com").unwrap();
    assert!(new(&other, Family::V4, b"xxanswer", 0).is_some());
    // What is kept of it otherwise is no message.
    remembered.keep(&name, Family::V4, &address, NOW, None);
    assert!(new(&name, Family::V4, b"xxanswer", 0).is_some());
    assert_eq!(
        recall(&remembered, "www.example.com", 0),
        ["www.example.com. 1.1.1.1"]
    );
}

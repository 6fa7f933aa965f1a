use super::*;

const NAME: &str = "a.test.";

fn address(name: &str, read_at: i64, status: Option<i64>) -> NameAddress {
    NameAddress {
        rule: NAME.to_owned(),
        name: name.to_owned(),
        address: "192.0.2.1".parse().unwrap(),
        answered_at: Some(time(read_at - 2)),
        read_at: time(read_at),
        status_written_at: status.map(time),
        object: status.map(|_| "ns/a".to_owned()),
        seen_where: "in the dnstap stream of 192.0.2.53".to_owned(),
        namespaces: vec!["team".to_owned()],
    }
}

fn row(committed_at: i64) -> RowAddress {
    RowAddress {
        rule: NAME.to_owned(),
        address: "192.0.2.1".parse().unwrap(),
        received_at: time(committed_at - 1),
        committed_at: time(committed_at),
        set: "a1".to_owned(),
    }
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// An answer of each collector, and of the writers `one` and `two`.
fn polled<const C: usize>(
    now: i64,
    collectors: [Option<NameAddress>; C],
    writers: [Option<RowAddress>; 2],
) -> Polled {
    let names = ["one", "two"].map(str::to_owned);
    let writers = writers.map(|it| (time(now), it.into_iter().collect()));
    let collectors = collectors.map(|it| (time(now), it.into_iter().collect()));
    Polled {
        collectors: collectors.into(),
        writers: names.into_iter().zip(writers).collect(),
    }
}

struct Joined {
    joiner: Joiner,
    began: Instant,
}

impl Joined {
    fn new(selection: Selection) -> Self {
        let began = Instant::now();
        let joiner = Joiner::new(selection, began);
        Self { joiner, began }
    }

    /// The lines of a poll so many milliseconds after the begin. The clocks of programs show 1,000,000 more.
    fn poll(&mut self, millis: u64, polled: impl FnOnce(i64) -> Polled) -> Vec<String> {
        let now = 1_000_000 + i64::try_from(millis).unwrap();
        let at = self.began + Duration::from_millis(millis);
        let lines = self.joiner.join(polled(now), at);
        lines.iter().map(Line::text).collect()
    }
}

const READ: i64 = 1_000_100;

#[tokio::test]
async fn address_is_printed_once_when_status_and_all_rows_are_there() {
    let mut it = Joined::new(Selection::default());
    let none = it.poll(200, |now| {
        polled(now, [Some(address(NAME, READ, None))], [None, None])
    });
    assert!(none.is_empty());
    let written = || Some(address(NAME, READ + 1, Some(READ + 5)));
    let standby = || Some(address(NAME, READ, None));
    let one = Some(row(READ + 8));
    let none = it.poll(700, |now| {
        polled(now, [standby(), written()], [one.clone(), None])
    });
    assert!(none.is_empty());
    let both = || [Some(row(READ + 8)), Some(row(READ + 10))];
    let lines = it.poll(1_200, |now| polled(now, [standby(), written()], both()));
    let expected = "1970-01-01T00:16:40.098Z a.test. 192.0.2.1: read 2 ms, status 5 ms, row 5 ms on 2 nodes, the slowest two, in all 12 ms";
    assert_eq!(lines, [expected]);
    let none = it.poll(1_700, |now| polled(now, [standby(), written()], both()));
    assert!(none.is_empty());
}

#[tokio::test]
async fn missing_row_is_named_after_five_seconds() {
    let mut it = Joined::new(Selection::default());
    let half = |now| {
        let written = address("x.test.", READ, Some(READ + 5));
        polled(now, [Some(written)], [Some(row(READ + 8)), None])
    };
    assert!(it.poll(200, half).is_empty());
    assert!(it.poll(5_100, half).is_empty());
    let expected = "? 1970-01-01T00:16:40.098Z x.test. (a.test.) 192.0.2.1: read 2 ms, status 5 ms, row 3 ms, no row of ovn-writer two, in all 10 ms";
    assert_eq!(it.poll(5_300, half), [expected]);
    assert!(it.poll(5_800, half).is_empty());
}

#[tokio::test]
async fn address_that_arrives_again_is_printed_again() {
    let mut it = Joined::new(Selection::default());
    let at = |read: i64| {
        move |now| {
            let rows = [Some(row(read + 8)), Some(row(read + 8))];
            polled(now, [Some(address(NAME, read, Some(read + 5)))], rows)
        }
    };
    assert_eq!(it.poll(200, at(READ)).len(), 1);
    assert_eq!(it.poll(30_000, at(READ + 20_000)).len(), 1);
    // The row of the first arrival does not count for the second.
    let old_row = |now| {
        let again = address(NAME, READ + 40_000, Some(READ + 40_005));
        polled(
            now,
            [Some(again)],
            [Some(row(READ + 8)), Some(row(READ + 40_008))],
        )
    };
    assert!(it.poll(50_000, old_row).is_empty());
}

#[tokio::test]
async fn older_and_unselected_addresses_are_not_printed() {
    for (name, namespace, read, expected) in [
        (None, None, READ, 1),
        (Some("a.*"), Some("team"), READ, 1),
        (Some("b"), None, READ, 0),
        (None, Some("other"), READ, 0),
        // From before the command began.
        (None, None, 999_900, 0),
    ] {
        let selection = Selection {
            name: name.map(|it| it.parse().unwrap()),
            namespace: namespace.map(str::to_owned),
        };
        let mut it = Joined::new(selection);
        let written = address(NAME, read, Some(read + 5));
        let rows = [Some(row(READ + 8)), Some(row(READ + 8))];
        let lines = it.poll(200, |now| polled(now, [Some(written)], rows));
        assert_eq!(lines.len(), expected, "{name:?} {namespace:?} {read}");
    }
}

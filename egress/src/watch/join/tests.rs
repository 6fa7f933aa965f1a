use serde_json::json;

use super::*;
use crate::watch::render;

fn program(kind: Kind, place: &str) -> Program {
    Program {
        kind,
        place: place.to_owned(),
    }
}

/// A joiner at a time, with its programs.
struct Joined {
    joiner: Joiner,
    start: Instant,
    now: Instant,
}

impl Joined {
    fn new(selection: Selection, writers: &[(&str, Option<&str>)]) -> Self {
        let start = Instant::now();
        let mut joined = Self {
            joiner: Joiner::new(selection, Duration::from_secs(5)),
            start,
            now: start,
        };
        for (place, idle) in writers {
            let state =
                json!({"kind": "state", "at": "2026-01-01T00:00:00Z", "lost": 0, "idle": idle});
            assert!(joined.hear(Kind::OvnWriter, place, state).is_empty());
        }
        joined
    }

    fn hear(&mut self, kind: Kind, place: &str, line: serde_json::Value) -> Vec<String> {
        let line = serde_json::from_value(line).unwrap();
        let program = program(kind, place);
        self.joiner
            .take(&program, StreamEvent::Line(line), self.now);
        texts(self.joiner.complete())
    }

    fn answer(&mut self, rule: &str, name: &str, known: &[&str]) -> Vec<String> {
        let line = json!({
            "kind": "answer", "rule": rule, "name": name, "addresses": ["192.0.2.1"], "moreAddresses": 0,
            "knownAddresses": known, "answeredAt": "2026-01-01T00:00:00.000Z", "readAt": "2026-01-01T00:00:00.002Z",
            "seenWhere": "in the dnstap stream of 10.0.0.53", "namespaces": ["team"], "later": true,
        });
        self.hear(Kind::Collector, "c", line)
    }

    fn status(&mut self, rule: &str, name: &str) -> Vec<String> {
        let line = json!({
            "kind": "status", "rule": rule, "addresses": [{"name": name, "address": "192.0.2.1"}], "moreAddresses": 0,
            "object": "ovn/dns-1", "resourceVersion": "7", "acknowledgedAt": "2026-01-01T00:00:00.007Z", "namespaces": ["team"],
        });
        self.hear(Kind::Collector, "c", line)
    }

    fn set(&mut self, writer: &str, name: &str, millis: u32) -> Vec<String> {
        self.hear(Kind::OvnWriter, writer, set_line(name, millis))
    }

    /// A change whose realized line will follow.
    fn followed_set(&mut self, writer: &str, millis: u32, follow_up: u64) -> Vec<String> {
        let mut line = set_line(NAME, millis);
        line["followUp"] = follow_up.into();
        line["seenAt"] = time(millis - 1).into();
        self.hear(Kind::OvnWriter, writer, line)
    }

    fn realized(
        &mut self,
        writer: &str,
        follow_up: u64,
        proof: &str,
        [rules, flows]: [Option<u32>; 2],
    ) -> Vec<String> {
        let line = json!({
            "kind": "realized", "followUp": follow_up, "proof": proof,
            "reason": (proof != "confirmed").then_some("a reason"),
            "rulesAt": rules.map(time), "cachedFlowsAt": flows.map(time), "cachedFlowsUnknown": null,
        });
        self.hear(Kind::OvnWriter, writer, line)
    }

    fn overdue_after(&mut self, seconds: u64) -> Vec<String> {
        self.now = self.start + Duration::from_secs(seconds);
        texts(self.joiner.overdue(self.now))
    }
}

fn time(millis: u32) -> String {
    format!("2026-01-01T00:00:00.{millis:03}Z")
}

fn set_line(name: &str, millis: u32) -> serde_json::Value {
    json!({
        "kind": "set", "name": name, "set": "a1", "controller": "x", "family": "v4", "cause": "store",
        "added": ["192.0.2.1"], "moreAdded": 0, "removed": [], "moreRemoved": 0,
        "seenAt": null, "acknowledgedAt": time(millis),
    })
}

fn texts(told: Vec<Told>) -> Vec<String> {
    told.iter().map(render::text).collect()
}

const NAME: &str = "a.test.";

#[test]
fn an_address_is_printed_once_when_all_nodes_have_it_in_any_order() {
    let complete = "2026-01-01T00:00:00Z a.test. 192.0.2.1: read 2 ms, status 5 ms, row 5 ms on 2 nodes, the slowest two, in all 12 ms";
    type Step = fn(&mut Joined) -> Vec<String>;
    let steps: [Step; 4] = [
        |it| it.answer(NAME, NAME, &[]),
        |it| it.status(NAME, NAME),
        |it| it.set("one", NAME, 10),
        |it| it.set("two", NAME, 12),
    ];
    for first in 0..4 {
        let mut joined = Joined::new(
            Selection::default(),
            &[("one", None), ("two", None), ("by", Some("standby"))],
        );
        for step in 0..3 {
            assert!(steps[(first + step) % 4](&mut joined).is_empty());
        }
        assert_eq!(steps[(first + 3) % 4](&mut joined), [complete]);
        // A standby of the collector tells of the same answer.
        assert!(joined.answer(NAME, NAME, &[]).is_empty());
        assert!(joined.overdue_after(5).is_empty());
        assert!(joined.overdue_after(70).is_empty());
        assert!(joined.joiner.pending.is_empty() && joined.joiner.rows.is_empty());
    }
}

#[test]
fn a_missing_leg_is_named_and_a_late_one_completes_the_line() {
    let mut joined = Joined::new(Selection::default(), &[("one", None), ("two", None)]);
    joined.answer(NAME, NAME, &[]);
    joined.set("one", NAME, 10);
    assert!(joined.overdue_after(4).is_empty());
    let line = "? 2026-01-01T00:00:00Z a.test. 192.0.2.1: read 2 ms, no status, row ?, no row of ovn-writer two, in all 10 ms";
    assert_eq!(joined.overdue_after(5), [line]);
    assert!(joined.overdue_after(6).is_empty());
    assert!(joined.status(NAME, NAME).is_empty());
    assert_eq!(joined.set("two", NAME, 900).len(), 1);
    joined.overdue_after(7);
    assert!(joined.joiner.pending.is_empty() && joined.joiner.rows.is_empty());

    // Nothing is known of its answer.
    joined.start = joined.now;
    joined.set("one", "b.test.", 10);
    let alone = "? 2026-01-01T00:00:00.01Z b.test. 192.0.2.1: no answer told, no status, row ?";
    assert_eq!(joined.overdue_after(5), [alone]);
    assert!(joined.joiner.rows.is_empty());
}

#[test]
fn names_under_a_wildcard_share_rows_and_a_known_address_waits_for_none() {
    let mut joined = Joined::new(Selection::default(), &[("one", None)]);
    joined.answer("*.w.test.", "x.w.test.", &[]);
    joined.status("*.w.test.", "x.w.test.");
    let lines = joined.set("one", "*.w.test.", 10);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(" x.w.test. (*.w.test.) 192.0.2.1: "));
    joined.answer("*.w.test.", "y.w.test.", &["192.0.2.1"]);
    // The row is of the other name.
    let lines = joined.status("*.w.test.", "y.w.test.");
    assert!(
        lines[0].ends_with("status 5 ms, in the set already, in all 7 ms"),
        "{lines:?}"
    );
}

#[test]
fn a_writer_that_goes_away_is_not_waited_for() {
    let mut joined = Joined::new(Selection::default(), &[("one", None), ("two", None)]);
    joined.answer(NAME, NAME, &[]);
    joined.status(NAME, NAME);
    joined.set("one", NAME, 10);
    let (gone, now) = (program(Kind::OvnWriter, "two"), joined.now);
    joined
        .joiner
        .take(&gone, StreamEvent::Down("x".to_owned()), now);
    let lines = texts(joined.joiner.complete());
    assert!(lines[0].ends_with("row 3 ms, in all 10 ms"), "{lines:?}");
}

#[test]
fn a_line_waits_until_the_rules_are_in_or_that_cannot_be_known() {
    let legs = "read 2 ms, status 5 ms, object";
    for (proof, times, expected) in [
        (
            "confirmed",
            [Some(14), Some(40)],
            "2 ms, row 1 ms, rules 4 ms, cached flows 26 ms, in all 14 ms",
        ),
        (
            "assumed",
            [Some(21), None],
            "2 ms, row 1 ms, rules 11 ms (assumed), in all 21 ms",
        ),
        (
            "late",
            [None, None],
            "2 ms, row 1 ms, rules late: a reason, in all 10 ms",
        ),
    ] {
        let mut joined = Joined::new(Selection::default(), &[("one", None)]);
        joined.answer(NAME, NAME, &[]);
        joined.status(NAME, NAME);
        assert!(joined.followed_set("one", 10, 3).is_empty());
        assert!(joined.realized("one", 2, proof, times).is_empty());
        let lines = joined.realized("one", 3, proof, times);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].ends_with(&format!("{legs} {expected}")),
            "{lines:?}"
        );
        assert!(joined.overdue_after(70).is_empty());
        assert!(joined.joiner.pending.is_empty() && joined.joiner.rows.is_empty());
    }
}

#[test]
fn the_slowest_node_is_that_whose_rules_are_in_last() {
    let mut joined = Joined::new(Selection::default(), &[("one", None), ("two", None)]);
    joined.answer(NAME, NAME, &[]);
    joined.status(NAME, NAME);
    joined.followed_set("one", 10, 1);
    joined.followed_set("two", 11, 1);
    joined.realized("one", 1, "confirmed", [Some(30), None]);
    let lines = joined.realized("two", 1, "confirmed", [Some(15), None]);
    let slowest = "object 2 ms, row 1 ms, rules 20 ms on 2 nodes, the slowest one, in all 30 ms";
    assert!(lines[0].ends_with(slowest), "{lines:?}");
}

#[test]
fn a_lost_word_of_the_rules_is_named_and_none_of_a_gone_writer_is_awaited() {
    let mut joined = Joined::new(Selection::default(), &[("one", None), ("two", None)]);
    joined.answer(NAME, NAME, &[]);
    joined.status(NAME, NAME);
    joined.followed_set("one", 10, 1);
    joined.followed_set("two", 10, 1);
    joined.realized("one", 1, "confirmed", [Some(12), None]);
    let lines = joined.overdue_after(5);
    assert!(
        lines[0].contains("no word of the rules from ovn-writer two"),
        "{lines:?}"
    );
    let (gone, now) = (program(Kind::OvnWriter, "two"), joined.now);
    joined
        .joiner
        .take(&gone, StreamEvent::Down("x".to_owned()), now);
    let lines = texts(joined.joiner.complete());
    assert!(lines[0].contains("in all 12 ms"), "{lines:?}");
    assert!(!lines[0].starts_with('?'), "{lines:?}");
}

#[test]
fn only_selected_names_are_printed() {
    for (name, namespace, expected) in [
        (Some("a.*"), None, 1),
        (Some("b"), None, 0),
        (None, Some("team"), 1),
        (None, Some("other"), 0),
    ] {
        let selection = Selection {
            name: name.map(|it| it.parse().unwrap()),
            namespace: namespace.map(str::to_owned),
        };
        let mut joined = Joined::new(selection, &[("one", None)]);
        joined.answer(NAME, NAME, &[]);
        joined.status(NAME, NAME);
        let told = joined.set("one", NAME, 10).len() + joined.overdue_after(6).len();
        assert_eq!(told, expected, "{name:?} {namespace:?}");
    }
}

#[test]
fn lost_events_are_counted_from_one_line_to_the_next() {
    let mut joiner = Joiner::new(Selection::default(), Duration::from_secs(5));
    let state = |lost| StreamEvent::Line(Line::State { lost, idle: None });
    for (what, expected) in [
        (state(0), None),
        (state(7), Some(7)),
        (state(7), None),
        (state(9), Some(2)),
        (StreamEvent::Up, None),
        (state(3), Some(3)),
    ] {
        assert_eq!(joiner.has_lost("one", &what), expected, "{what:?}");
    }
}

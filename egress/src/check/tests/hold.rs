//! The forwarders, and the Corefile that names them.

use proto::facts::{CollectorFacts, HoldFacts, HoldMode};
use serde_json::json;

use super::{
    assert_found,
    facts::{collector_with, of, well},
};
use crate::check::{facts::Facts, hold::hold};

fn facts(upstreams: &str, held: Option<(bool, HoldMode)>) -> Facts {
    let mut facts = well();
    let hold = held.map(|(listening, mode)| HoldFacts {
        listen: "0.0.0.0:5300".parse().unwrap(),
        upstreams: Vec::new(),
        listening,
        mode,
    });
    facts.programs = collector_with(Ok(CollectorFacts {
        hold,
        ..CollectorFacts::default()
    }));
    let corefile = format!(". {{\n forward . {upstreams}\n}}\n");
    let map = of(json!({ "data": { "Corefile": corefile } }));
    facts.dns.corefile.as_mut().unwrap().1 = Ok(Some(map));
    facts
}

#[test]
fn forwarder_must_listen_and_be_asked() {
    const ASKED: &str = "10.96.0.53:5300 10.96.0.54:5300 /etc/resolv.conf";
    const PLAIN: &str = "/etc/resolv.conf";
    let hold_on = |listening| Some((listening, HoldMode::Hold));
    for (upstreams, held, expected, words) in [
        (PLAIN, None, "", ""),
        (ASKED, hold_on(true), "✓", "10.96.0.53:5300"),
        (ASKED, hold_on(false), "✗", "no collector listens"),
        (ASKED, None, "✗", "no collector listens"),
        (PLAIN, hold_on(true), "!", "asks the collectors first"),
        (ASKED, Some((true, HoldMode::Pass)), "!", "egress hold hold"),
    ] {
        assert_found(hold(&facts(upstreams, held)), expected, words);
    }
}

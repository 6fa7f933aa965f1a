//! The forwarders, and the Corefile that names them.

use proto::facts::{CollectorFacts, HoldFacts};
use serde_json::json;

use super::{
    assert_found,
    facts::{collector_with, of, well},
};
use crate::check::{facts::Facts, hold::hold};

fn facts(upstreams: &str, hold: Option<HoldFacts>) -> Facts {
    let mut facts = well();
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
    let with = |listening, passing| {
        Some(HoldFacts {
            listening,
            passing,
            ..HoldFacts::default()
        })
    };
    let counted = |held, early| {
        Some(HoldFacts {
            held,
            early,
            ..with(true, false).unwrap()
        })
    };
    for (upstreams, held, expected, words) in [
        (PLAIN, None, "", ""),
        (ASKED, with(true, false), "✓", "10.96.0.53:5300"),
        (ASKED, with(false, false), "✗", "no collector listens"),
        (ASKED, None, "✗", "no collector listens"),
        (PLAIN, with(true, false), "!", "asks the collectors first"),
        (ASKED, with(true, true), "!", "egress hold hold"),
        (ASKED, counted(95, 5), "✓", "10.96.0.53:5300"),
        (ASKED, counted(94, 6), "!", "6 of 100 answers"),
    ] {
        assert_found(hold(&facts(upstreams, held)), expected, words);
    }
}

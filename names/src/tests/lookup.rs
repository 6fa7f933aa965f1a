//! Why a look-up found no address, and when the first one is due.

use std::io::ErrorKind::Other;

use serde_json::json;

use super::{admit, at, name, status, stored_address};
use crate::{
    Failure,
    FamilyOutcome::{self, Failed, Inconclusive, NoData},
    Limits, LookupResult, Names, NamespaceCaps, NoAddress, RuleUse,
};

fn why(v4: FamilyOutcome, v6: FamilyOutcome) -> NoAddress {
    let result = LookupResult {
        name: name("www.example.com"),
        started: at(0.0),
        is_unresponsive: false,
        v4,
        v6,
    };
    result.no_address().unwrap()
}

#[test]
fn weightier_failure_of_both_families_counts_and_any_noerror_before_it() {
    use Failure::{BadReply, Network, NoServer, Rcode, Timeout};
    let rising = [
        NoServer,
        Timeout,
        Network(Other),
        Failure::NXDOMAIN,
        BadReply,
        Rcode(2),
    ];
    for pair in rising.windows(2) {
        for [v4, v6] in [[pair[0], pair[1]], [pair[1], pair[0]]] {
            assert_eq!(why(Failed(v4), Failed(v6)), NoAddress::Failed(pair[1]));
        }
    }
    assert_eq!(why(NoData, NoData), NoAddress::NoData);
    assert_eq!(why(NoData, Inconclusive), NoAddress::Inconclusive);
    assert_eq!(why(NoData, Failed(Timeout)), NoAddress::Failed(Timeout));
}

#[test]
fn name_with_a_status_is_looked_up_at_once_when_its_first_rule_comes() {
    let www = name("www.example.com");
    let mut names = Names::new(Limits::default(), NamespaceCaps::default());
    names.set_leads(true);
    let addresses = [stored_address("1.1.1.1", 300, 0)];
    let stored = status(json!([{
        "dnsName": www, "resolutionFailures": 0, "resolvedAddresses": addresses
    }]));
    names.apply_stored(&www, Some(&stored), None, admit, at(1.0));
    let rule_use = RuleUse {
        allowed: true,
        ..RuleUse::none(names.limits().clone())
    };
    names.apply_rule(&www, Some(rule_use.into()), at(1.0));
    assert_eq!(names.due(&www), Some(at(1.0)));
}

//! Why a look-up found no address.

use std::io::ErrorKind::Other;

use super::{at, name};
use crate::{
    Failure,
    FamilyOutcome::{self, Failed, Inconclusive, NoData},
    LookupResult, NoAddress,
};

fn why(v4: FamilyOutcome, v6: FamilyOutcome) -> NoAddress {
    let result = LookupResult {
        name: name("www.example.com"),
        started: at(0.0),
        finished: at(0.0),
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

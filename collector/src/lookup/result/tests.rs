//! How the replies of several servers are combined.

use std::io;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn answer(rcode: u8, addresses: &[(&str, u32)]) -> Result<ServerReply, Failure> {
    let addresses = addresses
        .iter()
        .map(|(address, ttl)| (address.parse().unwrap(), *ttl));
    Ok(ServerReply {
        rcode: rcode.into(),
        truncated: false,
        addresses: addresses.collect(),
    })
}

fn outcome(replies: &[Result<ServerReply, Failure>]) -> FamilyOutcome {
    let mut tally = Tally::default();
    for reply in replies {
        tally.add(reply.clone(), NOW);
    }
    tally.finish(Failure::Timeout)
}

fn servfail() -> Result<ServerReply, Failure> {
    answer(dns::RCODE_SERVFAIL, &[])
}

fn nxdomain() -> Result<ServerReply, Failure> {
    answer(dns::RCODE_NXDOMAIN, &[])
}

#[test]
fn union_has_each_address_once_with_its_largest_ttl() {
    let replies = [
        answer(0, &[("192.0.2.2", 5), ("192.0.2.1", 30)]),
        answer(0, &[("192.0.2.2", 60), ("192.0.2.3", 1)]),
    ];
    let FamilyOutcome::Addresses {
        addresses,
        at,
        complete,
    } = outcome(&replies)
    else {
        panic!("no addresses")
    };
    assert!(complete);
    let expected = answer(0, &[("192.0.2.1", 30), ("192.0.2.2", 60), ("192.0.2.3", 1)]);
    assert_eq!(addresses, expected.unwrap().addresses);
    assert_eq!(at, NOW);
}

#[test]
fn absence_is_what_every_server_that_answered_says() {
    let empty = || answer(0, &[]);
    let silent = || Err(Failure::Timeout);
    let refused = || Err(Failure::Network(io::ErrorKind::ConnectionRefused));
    let bad = || Err(Failure::BadReply);
    for (replies, expected) in [
        (vec![empty()], "absent"),
        (vec![empty(), nxdomain()], "absent"),
        (vec![silent(), empty()], "absent"),
        (vec![nxdomain(), silent()], "NXDOMAIN"),
        (vec![refused(), nxdomain()], "NXDOMAIN"),
        (vec![], "Timeout"),
        (vec![silent()], "Timeout"),
        (vec![servfail(), nxdomain()], "SERVFAIL"),
        (vec![nxdomain(), servfail()], "SERVFAIL"),
        (vec![nxdomain(), bad()], "BadReply"),
        (vec![empty(), servfail()], "inconclusive"),
        (
            vec![empty(), answer(dns::RCODE_REFUSED, &[])],
            "inconclusive",
        ),
        (vec![empty(), bad()], "inconclusive"),
        (
            vec![nxdomain(), answer(0, &[("192.0.2.1", 5)])],
            "addresses",
        ),
    ] {
        let outcome = outcome(&replies);
        let found = match outcome {
            FamilyOutcome::Addresses { .. } => "addresses".into(),
            FamilyOutcome::NoData => "absent".into(),
            FamilyOutcome::Inconclusive => "inconclusive".into(),
            FamilyOutcome::Failed(failure) => failure.reason(),
        };
        assert_eq!(found, expected, "{replies:?}");
        let is_absence = matches!(expected, "absent" | "NXDOMAIN");
        assert_eq!(outcome.is_absence(), is_absence, "{replies:?}");
    }
}

#[test]
fn truncated_udp_answer_is_no_absence_until_tcp_completes_it() {
    let mut cut_off = Tally::default();
    cut_off.add_part(answer(0, &[]).ok(), NOW);
    cut_off.add(nxdomain(), NOW);
    assert!(!cut_off.finish(Failure::Timeout).is_absence());
    let mut completed = Tally::default();
    completed.add_part(None, NOW);
    completed.completed();
    completed.add(nxdomain(), NOW);
    assert!(completed.finish(Failure::Timeout).is_absence());
}

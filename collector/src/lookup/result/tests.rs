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
    for replies in [
        vec![empty()],
        vec![empty(), nxdomain()],
        vec![nxdomain(), silent()],
        vec![silent(), empty()],
        vec![
            Err(Failure::Network(io::ErrorKind::ConnectionRefused)),
            nxdomain(),
        ],
    ] {
        assert!(outcome(&replies).is_absence(), "{replies:?}");
    }
    for replies in [
        vec![silent()],
        vec![servfail()],
        vec![nxdomain(), servfail()],
        vec![nxdomain(), Err(Failure::BadReply)],
        vec![empty(), servfail()],
        vec![empty(), answer(dns::RCODE_REFUSED, &[])],
        vec![empty(), Err(Failure::BadReply)],
        vec![nxdomain(), answer(0, &[("192.0.2.1", 5)])],
    ] {
        assert!(!outcome(&replies).is_absence(), "{replies:?}");
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

#[test]
fn nxdomain_counts_only_if_no_server_says_otherwise() {
    let failed = |replies: &[_]| match outcome(replies) {
        FamilyOutcome::Failed(failure) => failure.reason().into_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(&[nxdomain(), servfail()]), "SERVFAIL");
    assert_eq!(failed(&[servfail(), nxdomain()]), "SERVFAIL");
    assert_eq!(failed(&[Err(Failure::Timeout), nxdomain()]), "NXDOMAIN");
    assert_eq!(failed(&[nxdomain(), Err(Failure::BadReply)]), "BadReply");
    assert_eq!(failed(&[Err(Failure::Timeout)]), "Timeout");
    assert_eq!(failed(&[]), "Timeout");
}

//! Which queries are sent, and how answers are decoded.

use super::*;

#[tokio::test]
async fn a_and_aaaa_are_queried_separately_with_edns() {
    let server = good().await;
    let result = look_up(patient(), &[server.address]).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
    assert_eq!(result.failed(), None);
    let finished = Clock::system().now();
    assert!(result.started <= finished);
    let observations: Vec<_> = result.observations().collect();
    assert_eq!(observations.len(), 2);
    for observation in observations {
        assert_eq!(observation.name.as_str(), "www.example.com.");
        assert_eq!(observation.client, None);
        assert!(observation.at >= result.started && observation.at <= finished);
    }

    let asked = server.asked();
    let [one, two] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_ne!(one.is_v6(), two.is_v6());
    assert_ne!(one.from, two.from, "each query has a port of its own");
    for asked in [one, two] {
        assert_eq!(asked.name(), "www.example.com.");
        assert!(asked.message.metadata.recursion_desired);
        assert_eq!(asked.message.edns.as_ref().unwrap().max_payload(), 1232);
        assert!(!asked.tcp);
    }
}

#[tokio::test]
async fn identifiers_and_ports_cannot_be_foreseen() {
    let server = good().await;
    let mut resolving = Resolving::start(patient(), &[server.address]);
    for _ in 0..50 {
        resolving.look_up("www.example.com", 0).await;
    }
    let asked = server.asked();
    let different = |values: Vec<u16>| {
        let mut values = values;
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    assert!(different(asked.iter().map(|asked| asked.message.id).collect()) > 80);
    assert!(different(asked.iter().map(|asked| asked.from.port()).collect()) > 80);
    resolving.end().await;
}

#[tokio::test]
async fn truncated_answer_is_asked_for_again_over_tcp_and_counts_too() {
    let server = Scripted::start(|asked| {
        if asked.tcp {
            asked.addresses(&["192.0.2.2", AAAA], 20).say()
        } else {
            asked.addresses(&[A], 30).say_truncated()
        }
    })
    .await;
    let result = look_up(patient(), &[server.address]).await;
    let expected = [(A.to_owned(), 30), ("192.0.2.2".to_owned(), 20)];
    assert_eq!(found(&result.v4), expected);
    assert_eq!(found(&result.v6), [(AAAA.to_owned(), 20)]);
    assert!(is_complete(&result.v4) && is_complete(&result.v6));
    let asked = server.asked();
    assert_eq!(asked.iter().filter(|asked| asked.tcp).count(), 2);
    assert_eq!(asked.iter().filter(|asked| !asked.tcp).count(), 2);
}

/// Replies of an attacker or a broken server instead of the answer.
fn forgeries(asked: &Asked) -> Vec<Say> {
    let evil = ["192.0.2.66", "2001:db8::66"];
    let mut other_id = asked.addresses(&evil, 30);
    other_id.metadata.id = asked.message.id.wrapping_add(1);
    let mut other_name = asked.addresses(&evil, 30);
    other_name.queries[0].name = name("evil.example.com.");
    let mut other_type = asked.addresses(&evil, 30);
    other_type.queries[0].query_type = hickory_proto::rr::RecordType::TXT;
    let mut no_question = asked.addresses(&evil, 30);
    no_question.queries.clear();
    vec![
        Say::Reply(other_id),
        Say::Reply(other_name),
        Say::Reply(other_type),
        Say::Reply(no_question),
    ]
}

#[tokio::test]
async fn replies_with_another_id_question_or_address_are_ignored() {
    let server = Scripted::start(|asked| {
        let mut say = forgeries(asked);
        say.push(Say::FromElsewhere(
            asked.addresses(&["192.0.2.66", "2001:db8::66"], 30),
        ));
        say.push(Say::Reply(asked.addresses(&[A, AAAA], 30)));
        say
    })
    .await;
    let result = look_up(patient(), &[server.address]).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
}

#[tokio::test]
async fn answer_that_cannot_be_read_is_a_failure() {
    // A chain longer than any resolver follows: hickory decodes it, this project's decoder does
    // not.
    let server = Scripted::start(|asked| {
        use hickory_proto::rr::{RData, Record, rdata::CNAME};
        let mut reply = asked.reply(ResponseCode::NoError);
        for i in 0..=proto::dns::MAX_ALIASES {
            let owner = name(&format!("a{i}.example.com."));
            let to = RData::CNAME(CNAME(name(&format!("a{}.example.com.", i + 1))));
            reply.add_answer(Record::from_rdata(owner, 30, to));
        }
        reply.say()
    })
    .await;
    let result = look_up(patient(), &[server.address]).await;
    assert_eq!(result.failed(), Some(Failure::BadReply));
}

//! Malformed input on the dnstap socket. It is counted and costs its connection at most, and CoreDNS's answers
//! continue.

use std::net::Ipv4Addr;

use proto::api::Family;
use tests::{
    dnstap::{Sender, data, event, response},
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";
const ERRORS: &str = "egress_collector_connection_errors_total";
const EVENTS: &str = "egress_collector_events_total";

async fn world() -> World {
    World::start(Setup {
        zone: "www IN A 192.0.2.10\n*.apps IN A 192.0.2.30",
        allow: &[NAME, "*.apps.example.com"],
        ..Setup::default()
    })
    .await
}

/// CoreDNS's connection has survived, and no other connection was refused.
async fn expect_others_unharmed(world: &World) {
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.collector.ready().await;
    let connections = world
        .collector
        .admin()
        .metric("egress_collector_connections_accepted_total", &[])
        .await;
    assert!(connections.unwrap() >= 2.0);
}

#[tokio::test]
async fn a_frame_of_the_largest_length_there_is_takes_no_memory() {
    let world = world().await;
    let mut sender = Sender::open(&world.dnstap_socket()).await;
    sender.send(&u32::MAX.to_be_bytes()).await.unwrap();
    sender.closed().await;
    world
        .collector
        .counts(ERRORS, &["reason=\"frame\""], 1.0)
        .await;
    expect_others_unharmed(&world).await;
}

#[tokio::test]
async fn one_byte_a_second_is_too_slow_for_a_frame_and_holds_up_nobody() {
    let world = world().await;
    let mut slow = Sender::open(&world.dnstap_socket()).await;
    let frame = data(&event(response(NAME, Ipv4Addr::new(203, 0, 113, 1))));
    let trickle = tokio::spawn(async move {
        for byte in frame {
            if slow.send(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    });
    expect_others_unharmed(&world).await;
    world
        .collector
        .counts(ERRORS, &["reason=\"frame_timeout\""], 1.0)
        .await;
    trickle.abort();
}

#[tokio::test]
async fn bytes_at_random_close_the_connection() {
    let world = world().await;
    // A browser, a TLS client, and noise.
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0x16, 3, 1, 2, 0, 1, 0],
        &[0xa5; 4096],
    ] {
        let mut sender = Sender::connect(&world.dnstap_socket()).await;
        sender.send(bytes).await.unwrap();
        sender.closed().await;
    }
    world.collector.counts(ERRORS, &[], 3.0).await;
    expect_others_unharmed(&world).await;
}

#[tokio::test]
async fn bad_events_are_counted_and_skipped_and_the_good_ones_between_them_used() {
    let world = world().await;
    let mut sender = Sender::open(&world.dnstap_socket()).await;
    let good = response(NAME, Ipv4Addr::new(203, 0, 113, 1));
    // Field 14, a message of 200 bytes, of which there are three.
    let lies = [0x72, 200, 1, 1, 2, 3];
    let mut short = event(good.clone());
    short.truncate(short.len() / 2);
    for payload in [&lies[..], &short, &[0xff; 64]] {
        sender.send(&data(payload)).await.unwrap();
    }
    world
        .collector
        .counts(EVENTS, &["outcome=\"bad_event\""], 3.0)
        .await;

    let mut cut = good.clone();
    cut.truncate(good.len() - 3);
    for message in [looping_name(), cut, vec![0; 11]] {
        sender.send(&data(&event(message))).await.unwrap();
    }
    world
        .collector
        .counts(EVENTS, &["outcome=\"bad_message\""], 3.0)
        .await;
    assert!(
        world
            .northbound
            .sets(NAME, Family::V4)
            .unwrap()
            .iter()
            .all(|row| row.addresses.is_empty())
    );

    sender.send(&data(&event(good))).await.unwrap();
    world.expect_set(NAME, Family::V4, &["203.0.113.1"]).await;
}

#[tokio::test]
async fn addresses_that_no_answer_may_open_are_refused() {
    let world = world().await;
    let mut sender = Sender::open(&world.dnstap_socket()).await;
    for address in [
        [127, 0, 0, 1],
        [169, 254, 169, 254],
        [0, 0, 0, 0],
        [224, 0, 0, 1],
    ] {
        sender
            .send(&data(&event(response(NAME, address.into()))))
            .await
            .unwrap();
    }
    // The authors of the rule get an Event.
    let attempts = "egress_collector_rebinding_attempts_total";
    world.collector.counts(attempts, &[], 4.0).await;
    eventually("it is reported", async || {
        let messages = world.collector.messages();
        let told = |message: &serde_json::Value| {
            message["reason"] == "AddressRefused" && message["object"] == "team/default"
        };
        messages
            .iter()
            .any(told)
            .then_some(())
            .ok_or_else(String::new)
    })
    .await;
    sender
        .send(&data(&event(response(NAME, Ipv4Addr::new(203, 0, 113, 1)))))
        .await
        .unwrap();
    world.expect_set(NAME, Family::V4, &["203.0.113.1"]).await;
}

/// A response whose question name is a compression pointer to itself.
fn looping_name() -> Vec<u8> {
    let header = [0, 1, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    let question = [0xc0, 12, 0, 1, 0, 1];
    let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 203, 0, 113, 2];
    [&header[..], &question, &answer].concat()
}

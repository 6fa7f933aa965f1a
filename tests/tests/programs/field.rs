//! Inputs from the field, in `tests/fixtures/field`: answers of DNS servers, and manifests of people.

use std::{
    collections::BTreeSet,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use proto::api::Family;
use serde_json::Value;
use tests::{
    dnstap::{Sender, data, event_for},
    wait::eventually,
    world::{Setup, World},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/field")
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[tokio::test]
async fn answers_of_the_field_fill_the_set_of_their_rule() {
    let text = fs::read_to_string(folder().join("answers.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 5);
    for case in cases {
        let rule = case["rule"].as_str().unwrap();
        let world = World::start(Setup {
            allow: &[rule],
            ..Setup::default()
        })
        .await;
        let mut sender = Sender::open(&world.dnstap_socket()).await;
        // CoreDNS on a host with IPv6 gives a client's IPv4 address so.
        let client: IpAddr = "::ffff:10.244.0.7".parse().unwrap();
        let answer = bytes(case["answer_hex"].as_str().unwrap());
        let sent = sender.send(&data(&event_for(client, answer))).await;
        sent.unwrap();
        println!("{}", case["id"]);
        let addresses = case["addresses"].as_array().unwrap().iter();
        let addresses: Vec<&str> = addresses.map(|it| it.as_str().unwrap()).collect();
        world
            .expect_set(&format!("{rule}."), Family::V4, &addresses)
            .await;
    }
}

#[tokio::test]
async fn manifests_of_the_field_are_read_and_a_misspelt_field_is_named() {
    let world = World::start(Setup::default()).await;
    for entry in fs::read_dir(folder().join("manifests")).unwrap() {
        let file = entry.unwrap().path();
        let to = world.store.path().join(file.file_name().unwrap());
        fs::copy(&file, to).unwrap();
    }
    let expected = ["a", "b", "c", "d", "e", "g"].map(|it| format!("{it}.shop.example."));
    eventually("an object for each name", async || {
        let objects = world.store.objects().into_iter();
        let mut names: BTreeSet<String> = objects.map(|object| object.spec.name).collect();
        names.remove("*.fence.test.");
        (names.iter().eq(&expected))
            .then_some(())
            .ok_or(format!("{names:?}"))
    })
    .await;
    eventually("the misspelt field is named", async || {
        let messages = world.collector.messages();
        let is_named = |message: &Value| {
            let text = message.to_string();
            text.contains("wrong-case.yaml") && text.contains("dnsname")
        };
        let is_named = messages.iter().any(is_named);
        is_named
            .then_some(())
            .ok_or_else(|| format!("{messages:?}"))
    })
    .await;
}

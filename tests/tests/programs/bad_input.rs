//! Invalid manifests and objects affect only themselves.

use std::fs;

use proto::api::Family;
use tests::world::{Setup, World};

const NAME: &str = "www.example.com.";

async fn world(allow: &[&str]) -> World {
    World::start(Setup {
        zone: "www IN A 192.0.2.10\nlate IN A 192.0.2.11",
        allow,
        ..Setup::default()
    })
    .await
}

async fn expect_in_log(program: &tests::programs::Program, text: &str) {
    tests::wait::eventually(&format!("{text:?} in the log"), async || {
        let messages = program.messages();
        let found = messages
            .iter()
            .any(|message| message.to_string().contains(text));
        found
            .then_some(())
            .ok_or_else(|| format!("{} messages", messages.len()))
    })
    .await;
}

#[tokio::test]
async fn a_manifest_that_an_edit_breaks_is_no_deletion() {
    let world = world(&[NAME]).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    let file = world.store.egress_firewall("team");
    let whole = fs::read_to_string(&file).unwrap();
    // Like an interrupted editor.
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    expect_in_log(&world.collector, file.to_str().unwrap()).await;
    world.settle().await;
    assert_eq!(history.departures().await, [""; 0]);
    assert!(world.store.object(NAME).is_some());
    // Once repaired, with another name, it counts again.
    world.store.allow("team", &[NAME, "late.example.com"]);
    world
        .expect_flow("late.example.com.", Family::V4, "192.0.2.11")
        .await;
}

#[tokio::test]
async fn a_store_that_vanishes_closes_nothing() {
    let world = world(&[NAME]).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    let aside = world.workdir.join("aside");
    fs::rename(world.store.path(), &aside).unwrap();
    let says = async |program: &tests::programs::Program, code, words: &str| {
        tests::wait::eventually(&format!("{code} with {words:?}"), async || {
            match program.admin().get("/readyz").await {
                Ok((found, body)) if found == code && body.contains(words) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    };
    let words = "dns-name-resolvers: ok, but they cannot be read";
    says(&world.collector, 200, words).await;
    says(&world.ovn_writer, 503, "store: ").await;
    fs::rename(&aside, world.store.path()).unwrap();
    says(&world.collector, 200, "dns-name-resolvers: ok\n").await;
    world.ovn_writer.ready().await;
    world.settle().await;
    assert_eq!(history.departures().await, [""; 0]);
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
}

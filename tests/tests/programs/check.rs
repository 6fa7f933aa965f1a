//! `egress check` of programs at local sockets.

use std::{fs, process::Output};

use proto::api::Family;
use tests::{
    programs,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

/// The address of the ovn-writer's `--inspect` port.
fn inspect_of(world: &World) -> String {
    let messages = world.ovn_writer.messages();
    let mut messages = messages.iter();
    let listens = messages.find(|it| it["message"] == "inspect listening");
    listens.unwrap()["addr"].as_str().unwrap().to_owned()
}

/// Waits until a check ends with this status and has these parts.
async fn finds(args: &[&str], status: i32, parts: &[&str]) -> String {
    eventually(&format!("{parts:?}"), async || {
        let Output {
            status: ended,
            stdout,
            stderr,
        } = programs::run("egress", args).await;
        let text = String::from_utf8([stdout, stderr].concat()).unwrap();
        match ended.code() == Some(status) && parts.iter().all(|part| text.contains(part)) {
            true => Ok(text),
            false => Err(format!("{ended:?}: {text}")),
        }
    })
    .await
}

#[tokio::test]
async fn programs_without_a_cluster_are_checked_too() {
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    let socket = world.workdir.join("inspect.sock");
    let collector = format!("unix://{}", socket.display());
    world
        .restart_asking(&["--inspect", &collector, "--flush-name=flush.example.com"])
        .await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.northbound.create_acls(&[NAME.to_owned()], true);
    let writer = inspect_of(&world);
    let args = ["check", "--collector", &collector, "--ovn-writer", &writer];
    let text = finds(&args, 0, &["All is well."]).await;
    for topic in [
        "Collectors",
        "dnstap streams",
        "Rules and names",
        "ovn-writers",
        "Address sets",
    ] {
        assert!(text.contains(&format!("✓ {topic}: ")), "{topic}: {text}");
    }

    let file = world.store.objects_folder().join("broken.yaml");
    fs::write(&file, "kind: [").unwrap();
    let seen = format!("✗ Rules and names: DNSNameResolver {}: ", file.display());
    finds(
        &args,
        1,
        &[&seen, "mend the file: docs/without-kubernetes.md"],
    )
    .await;
    fs::remove_file(&file).unwrap();
    finds(&args, 0, &["All is well."]).await;

    world.northbound.process().kill();
    finds(&args, 1, &["✗ ovn-writers: northbound: "]).await;
    world.northbound.restart().await;
    finds(&args, 0, &["All is well."]).await;

    // A program that does not answer is unknown, and no fault.
    world.ovn_writer.process().kill();
    let silent = format!("? ovn-writers: no answer of the ovn-writer {writer}");
    let text = finds(&args, 2, &[&silent, "unknown: something could not be seen"]).await;
    assert!(
        text.contains("? Address sets: ") && !text.contains('✗'),
        "{text}"
    );
}

//! Absent objects, with the program's own delays, its flags and its control socket.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use proto::api::Family::V4;
use tests::{
    programs,
    soak::is_long,
    wait::{eventually, eventually_within},
};

use super::World;
use crate::{harness::Database, server::run};

const W: &str = "www.example.com.";
const B: &str = "b.example.";
const UNUSED: &str = "unused.example.";

/// Two names in use, and one unused name.
async fn world(flags: &[&str]) -> (World, Vec<String>) {
    let database = Database::start().await;
    let names = [W, B].map(str::to_owned);
    let acls = database.northbound.create_acls(&names, false);
    let objects: [(&str, &[&str]); 3] = [
        (W, &["10.0.0.1"]),
        (B, &["10.0.0.2"]),
        (UNUSED, &["10.0.0.3"]),
    ];
    let world = World::on(database, &objects, flags).await;
    for (name, addresses) in objects {
        world.database.expect(name, V4, addresses).await;
    }
    (world, acls)
}

/// Waits for the delay of an unused name, from now on.
async fn delay(world: &World) {
    world.store.remove_object(UNUSED);
    world.database.expect(UNUSED, V4, &[]).await;
    world.store.write_status(UNUSED, &["10.0.0.3"]);
    world.database.expect(UNUSED, V4, &["10.0.0.3"]).await;
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn a_set_with_a_rule_is_kept_and_one_without_is_emptied_then_deleted() {
        let (world, acls) = world(&[]).await;
        world.store.remove_object(W);
        delay(&world).await;
        world.database.expect(W, V4, &["10.0.0.1"]).await;
        world.database.northbound.remove_acl(&acls[0]);
        world.database.expect(W, V4, &[]).await;
        assert_eq!(world.database.closings(), [""; 0]);
        if is_long() {
            let minutes = Duration::from_secs(120);
            eventually_within(minutes, "it is deleted", async || {
                let rows = world.database.northbound.sets(W, V4)?;
                rows.is_empty().then_some(()).ok_or(format!("{rows:?}"))
            })
            .await;
        }
        world.database.expect(B, V4, &["10.0.0.2"]).await;
    }
}

#[tokio::test]
async fn after_the_time_of_a_flag_a_name_in_use_is_closed_though_its_rule_stays() {
    let (world, _) = world(&["--absent-after", "6s"]).await;
    world.store.remove_object(W);
    world.database.expect(W, V4, &[]).await;
    assert_eq!(world.database.closings(), ["www.example.com. 10.0.0.1"]);
    world.program.ready().await;
}

/// A time relative to now, in the form of `date`.
fn time(from_now: &str) -> String {
    let date = ["-u", "-d", from_now, "+%Y-%m-%dT%H:%M:%SZ"];
    run(Command::new("date").args(date))
        .unwrap()
        .trim()
        .to_owned()
}

#[tokio::test]
async fn a_time_for_allow_empty_that_cannot_be_is_a_usage_error() {
    for (time, words) in [
        (time("+61 minutes"), "an hour"),
        ("tomorrow".to_owned(), "RFC 3339"),
        (String::new(), "--allow-empty-until"),
    ] {
        let flags = [
            "--store",
            "dir:.",
            "--nb",
            "unix:nb.sock",
            "--allow-empty-until",
            &time,
        ];
        let output = programs::run("ovn-writer", &flags).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{time}: {error}");
        assert!(error.contains(words), "{time}: {error}");
    }
}

#[tokio::test]
async fn allow_empty_removes_names_absent_at_start_and_none_after_its_time() {
    let (mut world, _) = world(&[]).await;
    world.program.process().terminate().await;
    world.store.remove_object(W);
    world.store.remove_object(B);
    for (from_now, closes) in [("-1 second", false), ("+50 minutes", true)] {
        let time = time(from_now);
        let flags = ["--allow-empty-until", time.as_str()];
        let (folder, remote) = (
            world.database.workdir.path(),
            world.database.northbound.remote(),
        );
        world.program = super::start(folder, &world.store, &remote, &flags).await;
        world.program.ready().await;
        if closes {
            world.database.expect(W, V4, &[]).await;
            world.database.expect(B, V4, &[]).await;
            // The permission covered the names that were absent then.
            world.store.write_status(W, &["10.0.0.1"]);
            world.database.expect(W, V4, &["10.0.0.1"]).await;
            world.store.remove_object(W);
        }
        delay(&world).await;
        let closings = world.database.closings();
        assert_eq!(closings.len(), if closes { 2 } else { 0 }, "{closings:?}");
    }
    world.database.expect(W, V4, &["10.0.0.1"]).await;
}

/// Runs `ovn-writer allow-empty` against the running program.
async fn allow_empty(control: &str) -> (Option<i32>, String) {
    let output = programs::run("ovn-writer", &["allow-empty", "--control", control]).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn the_control_socket_makes_a_running_writer_remove_absent_names() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control.sock");
    let control = format!("unix://{}", socket.display());
    let (code, text) = allow_empty(&control).await;
    assert_eq!(code, Some(2), "{text}");

    let (world, _) = world(&["--control", &control]).await;
    assert_eq!(mode(&socket), 0o600);
    world.store.remove_object(W);
    world.store.remove_object(B);
    delay(&world).await;
    assert_eq!(world.database.closings(), [""; 0]);
    let (code, text) = allow_empty(&control).await;
    assert_eq!(code, Some(0), "{text}");
    world.database.expect(W, V4, &[]).await;
    world.database.expect(B, V4, &[]).await;
    world.program.ready().await;
    // The permission holds once: later absences stay.
    world.store.write_status(W, &["10.0.0.1"]);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    world.store.remove_object(W);
    delay(&world).await;
    assert_eq!(world.database.closings().len(), 2);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
}

#[tokio::test]
async fn nothing_else_takes_the_order_of_the_control_socket() {
    let folder = tempfile::tempdir().unwrap();
    let inspect = format!("unix://{}", folder.path().join("inspect.sock").display());
    let (world, _) = world(&["--inspect", &inspect]).await;
    world.store.remove_object(W);
    world.store.remove_object(B);
    for socket in [&*inspect, "tcp://127.0.0.1:9093"] {
        let (code, text) = allow_empty(socket).await;
        assert_eq!(code, Some(2), "{text}");
    }
    delay(&world).await;
    assert_eq!(world.database.closings(), [""; 0]);
    // It refuses to listen where other hosts or users could connect.
    let flags = [
        "--store",
        "dir:.",
        "--nb",
        "unix:nb.sock",
        "--control",
        "tcp://127.0.0.1:0",
    ];
    let output = programs::run("ovn-writer", &flags).await;
    assert_eq!(output.status.code(), Some(2));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_suspect_store_is_logged_with_its_names_and_foreign_rows_are_named() {
    let (world, _) = world(&[]).await;
    world.store.remove_object(W);
    world.store.remove_object(B);
    delay(&world).await;
    let store = world.store.address();
    let remote = world.database.northbound.remote();
    let verify = ["verify", "--store", &store, "--nb", &remote];
    eventually("verify names both", async || {
        let output = programs::run("egress", &verify).await;
        let text = String::from_utf8(output.stdout).unwrap();
        let both = text.contains(W) && text.contains(B);
        both.then_some(()).ok_or(text)
    })
    .await;
    let renamed = [&verify[..], &["--objects-namespace", "renamed"]].concat();
    let output = programs::run("egress", &renamed).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("{store}/ovn-kubernetes")), "{text}");
}

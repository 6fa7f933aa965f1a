//! A capture of a running collector's stream.

use std::fs;

use proto::api::Family;
use tests::{
    programs,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

#[tokio::test]
async fn a_capture_has_the_answers_and_replaces_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("inspect.sock").display().to_string();
    let file = folder.path().join("events.fstrm").display().to_string();
    let inspect = format!("unix://{socket}");
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME],
        collector: &["--inspect", &inspect],
        ..Setup::default()
    })
    .await;
    let args = ["capture", &file, "--collector", &inspect, "--duration=3s"];
    let (captured, ()) = tokio::join!(programs::run("egress", &args), async {
        // Not before the capture has begun.
        eventually("the file", async || {
            fs::metadata(&file).map_err(|it| it.to_string())
        })
        .await;
        world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    });
    assert!(captured.status.success(), "{captured:?}");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.windows(4).any(|it| it == [192, 0, 2, 10]));
    assert!(bytes.ends_with(&[0, 0, 0, 4, 0, 0, 0, 3]), "no STOP");
    let again = programs::run("egress", &args).await;
    assert_eq!(again.status.code(), Some(1));
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("events.fstrm"), "{said}");
}

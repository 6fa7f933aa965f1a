//! A capture of a running collector's stream.

use std::{fs, io, process::Output};

use proto::api::Family;
use tests::{
    programs,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

async fn world(workdir_socket: &str) -> World {
    let inspect = format!("unix://{workdir_socket}");
    World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME],
        collector: &["--inspect", &inspect],
        ..Setup::default()
    })
    .await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn capture(inspect: &str, file: &str, duration: &str) -> Output {
    let args = [
        "capture",
        file,
        "--collector",
        inspect,
        "--duration",
        duration,
    ];
    programs::run("egress", &args).await
}

#[tokio::test]
async fn a_capture_has_the_answers_and_replaces_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("inspect.sock").display().to_string();
    let file = folder.path().join("events.fstrm").display().to_string();
    let world = world(&socket).await;
    let inspect = format!("unix://{socket}");
    let (captured, ()) = tokio::join!(capture(&inspect, &file, "3s"), async {
        // Not before the capture has begun.
        eventually("the file", async || {
            fs::metadata(&file).map_err(|it| it.to_string())
        })
        .await;
        world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    });
    assert!(captured.status.success(), "{}", text(&captured.stderr));
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.windows(4).any(|it| it == [192, 0, 2, 10]));
    assert!(bytes.ends_with(&[0, 0, 0, 4, 0, 0, 0, 3]), "no STOP");
    let again = capture(&inspect, &file, "0").await;
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("events.fstrm"),
        "{}",
        text(&again.stderr)
    );
}

#[tokio::test]
async fn a_capture_of_a_collector_that_ends_says_so_and_keeps_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("inspect.sock").display().to_string();
    let file = folder.path().join("events.fstrm").display().to_string();
    let mut world = world(&socket).await;
    let inspect = format!("unix://{socket}");
    let (captured, ()) = tokio::join!(capture(&inspect, &file, "10m"), async {
        let begun = async || match fs::metadata(&file) {
            Ok(file) if file.len() > 0 => Ok(()),
            Ok(_) => Err("it is empty".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        eventually("the file", begun).await;
        world.collector.process().kill();
    });
    assert_eq!(
        captured.status.code(),
        Some(1),
        "{}",
        text(&captured.stderr)
    );
    assert!(fs::metadata(&file).unwrap().len() > 0);
    let none = capture(&inspect, &format!("{file}.2"), "1s").await;
    assert_eq!(none.status.code(), Some(2));
    assert!(
        text(&none.stderr).contains("no answer of the collector unix:"),
        "{}",
        text(&none.stderr)
    );
    assert_eq!(
        fs::metadata(format!("{file}.2")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

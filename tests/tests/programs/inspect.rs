//! `--inspect`: the page in Chromium.

use std::{process::Stdio, time::Duration};

use proto::api::Family;
use tests::{
    programs::Program,
    world::{Setup, World},
};
use tokio::{process::Command, time::timeout};

const NAME: &str = "www.example.com.";

/// How long Chromium may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The page as the browser understands it, and its text, once it has shown the first answers. The browser's clock stands
/// still while it waits for an answer.
pub(crate) async fn shown(program: &Program) -> (String, String) {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    let address = listening.expect("it is in the log")["addr"].as_str();
    let profile = tempfile::tempdir().unwrap();
    let shown = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(address.unwrap().replacen("tcp", "http", 1))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = timeout(PATIENCE, shown).await.expect("chromium ends");
    let shown = shown.expect("scripts/setup installs it");
    assert!(shown.status.success(), "{shown:?}");
    let dom = String::from_utf8(shown.stdout).unwrap();
    let tags = dom.split('<').filter_map(|part| part.split_once('>'));
    let text = tags.map(|(_, text)| text).collect();
    (dom, text)
}

#[tokio::test]
async fn a_browser_shows_problems_and_tables_and_runs_no_script_of_a_tenant() {
    let hostile = "<script>alert(1)</script>";
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["localhost", hostile, NAME, "other.example.com"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let (dom, text) = shown(&world.collector).await;
    for part in [
        "2 problems",
        "other.example.com.: no address",
        "Peers (1)",
        "process ",
        "Names (",
        NAME,
        "192.0.2.10",
        "team",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert_eq!(dom.matches("<script").count(), 1, "{dom}");
    let (_, text) = shown(&world.ovn_writer).await;
    for part in ["No problems", "Sets (", NAME, "192.0.2.10"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

//! `--inspect`: the state as a page and as JSON.

use std::{fs, os::unix::fs::PermissionsExt};

use proto::api::Family;
use serde_json::Value;
use tests::{
    admin::{Admin, get_over_unix},
    programs::Program,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

const HOSTILE: &str = "<script>alert(1)</script>";

#[tokio::test]
async fn the_status_page_says_what_is_refused_and_why_and_what_is_known() {
    let workdir = tests::workdir::Workdir::new();
    let socket = workdir.join("inspect.sock");
    let inspect = format!("unix://{}", socket.display());
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["localhost", HOSTILE, NAME],
        collector: &["--inspect", &inspect],
        ..Setup::default()
    })
    .await;
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let bad = world.store.egress_firewall("bad");
    fs::create_dir_all(bad.parent().unwrap()).unwrap();
    fs::write(&bad, "kind: EgressFirewall\nspec: [\n").unwrap();

    let status = eventually("the bad file is in the status", async || {
        let (code, body) = get_over_unix(&socket, "/status.json").await.unwrap();
        assert_eq!(code, 200, "{body}");
        let status: Value = serde_json::from_str(&body).unwrap();
        // One comes from the reader's task, the other from the controller.
        let is_told = |what: &str| !status[what].as_array().unwrap().is_empty();
        (is_told("badObjects") && is_told("unknownEgressFirewalls"))
            .then_some(status.clone())
            .ok_or(body)
    })
    .await;
    world
        .collector
        .counts(
            "egress_store_undecodable_objects",
            &["kind=\"EgressFirewall\""],
            1.0,
        )
        .await;
    assert_eq!(status["leader"], true);
    assert_eq!(status["badObjects"][0]["kind"], "EgressFirewall");
    assert_eq!(status["badObjects"][0]["place"], bad.to_str().unwrap());
    assert_eq!(status["unknownEgressFirewalls"][0], "bad/default");
    for condition in status["conditions"].as_array().unwrap() {
        assert_eq!(condition["holds"], true, "{condition}");
        let reason = condition["reason"].as_str().unwrap_or_default();
        let expected = match condition["name"].as_str() {
            Some("egress-firewalls") => "1 cannot be read and never could, such as bad/default",
            _ => "",
        };
        assert!(
            reason.starts_with(expected) && reason.is_empty() == expected.is_empty(),
            "{condition}"
        );
    }
    let [fault] = status["faults"].as_array().unwrap().as_slice() else {
        panic!("{}", status["faults"]);
    };
    assert_eq!(fault["egressFirewall"], "team/default");
    assert_eq!(fault["reason"], "NameRefused");
    assert_eq!(fault["count"], 2);
    let names = status["names"].as_array().unwrap();
    let name = names.iter().find(|name| name["name"] == NAME).unwrap();
    assert_eq!((&name["addresses"], &name["names"]), (&1.into(), &1.into()));
    let object = world.store.object(NAME).unwrap().metadata.name.unwrap();
    assert_eq!(name["objects"][0], format!("ovn-kubernetes/{object}"));
    assert_eq!(
        (&name["allowed"], &name["denied"]),
        (&true.into(), &false.into())
    );

    let (code, page) = get_over_unix(&socket, "/").await.unwrap();
    assert_eq!(code, 200, "{page}");
    for part in ["team/default", "NameRefused", "localhost", NAME, &object] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
    // Health and metrics are on another server, and neither has the other's pages.
    assert_eq!(get_over_unix(&socket, "/metrics").await.unwrap().0, 404);
    let admin = world.collector.admin();
    assert_eq!(admin.get("/status.json").await.unwrap().0, 404);
}

#[tokio::test]
async fn the_status_page_can_be_on_a_loopback_port() {
    let world = World::start(Setup {
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    let messages = world.collector.messages();
    let listening = |message: &&Value| message["message"] == "inspect listening";
    let message = messages.iter().find(listening).expect("it is in the log");
    let address = message["addr"].as_str().unwrap();
    let address = address.strip_prefix("tcp://").unwrap().parse().unwrap();
    let (code, page) = Admin::new(address).get("/").await.unwrap();
    assert_eq!(code, 200, "{page}");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
}

#[tokio::test]
async fn idle_admin_connections_do_not_delay_the_answer_to_probes() {
    let world = World::start(Setup::default()).await;
    let admin = world.collector.admin();
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(
            tokio::net::TcpStream::connect(admin.address())
                .await
                .unwrap(),
        );
    }
    eventually("it is alive", async || match admin.get("/livez").await {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Chromium's rendering of a page. The page forbids all scripts; disabling them in the browser would prevent its
/// output.
async fn chromium(url: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", profile.path().display());
    let mut command = tokio::process::Command::new("chromium");
    let shown = command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--dump-dom", &profile, url])
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = tokio::time::timeout(std::time::Duration::from_secs(60), shown).await;
    let shown = shown
        .expect("chromium ends")
        .expect("scripts/setup installs it");
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8(shown.stdout).unwrap()
}

/// The URL of a program's pages, for `--inspect` on a port.
fn inspect_url(program: &Program) -> String {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    let address = listening.expect("it is in the log")["addr"].as_str();
    address.unwrap().replacen("tcp", "http", 1)
}

#[tokio::test]
async fn a_browser_shows_the_tables_filters_and_explains_without_a_script() {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["localhost", HOSTILE, NAME, "other.example.com"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let base = inspect_url(&world.collector);
    let page = chromium(&format!("{base}/")).await;
    for part in [
        "<h2>Peers</h2>",
        "<td>process ",
        "<h2>Names</h2>",
        ">www.example.com.</a>",
        ">other.example.com.</a>",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    // The browser shows a rule's name as text, too.
    assert!(
        page.contains("&lt;script&gt;") && !page.contains("<script"),
        "{page}"
    );
    let found = chromium(&format!("{base}/?filter=WWW.")).await;
    assert!(
        found.contains(">www.example.com.</a>") && !found.contains(">other.example.com.</a>"),
        "{found}"
    );
    let why = chromium(&format!("{base}/explain?about=www.example.com")).await;
    assert!(
        why.contains("www.example.com. is there, with 1 address.") && why.contains("<pre>"),
        "{why}"
    );
    let hostile = chromium(&format!(
        "{base}/explain?about=%3Cscript%3E%1b&namespace=%22%3E%3Cb%3E"
    ))
    .await;
    assert!(
        hostile.contains("&lt;script&gt;\\u{1b} is not there"),
        "{hostile}"
    );
    assert!(
        !hostile.contains("<script") && !hostile.contains("<b>"),
        "{hostile}"
    );
    let sets = format!("{}/?filter=WWW.", inspect_url(&world.ovn_writer));
    let sets = chromium(&sets).await;
    let row = r#">www.example.com.</a></td>"#;
    let counts = r#"<td>v4</td><td class="number">1</td><td class="number">1</td>"#;
    assert!(sets.contains(row) && sets.contains(counts), "{sets}");
    assert!(
        !sets.contains("other.example.com.") && sets.contains("value=\"WWW.\""),
        "{sets}"
    );
}

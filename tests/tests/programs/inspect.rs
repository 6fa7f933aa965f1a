//! `--inspect`: the state as a page and as JSON.

mod browser;

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

/// The URL of a program's pages, for `--inspect` on a port.
fn inspect_url(program: &Program) -> String {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    let address = listening.expect("it is in the log")["addr"].as_str();
    address.unwrap().replacen("tcp", "http", 1)
}

/// The JSON at a path of the program.
async fn json(program: &Program, path: &str) -> Value {
    let address = inspect_url(program);
    let address = address.strip_prefix("http://").unwrap().parse().unwrap();
    let (code, body) = Admin::new(address).get(path).await.unwrap();
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The first problem of a status with this code.
fn problem<'a>(status: &'a Value, code: &str) -> Option<&'a Value> {
    let mut problems = status["problems"].as_array()?.iter();
    problems.find(|it| it["code"] == code)
}

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
        let is_bad = problem(&status, "ObjectFault").is_some();
        let unknown = status["collector"]["sources"][0]["unknown"].as_array();
        (is_bad && !unknown.unwrap().is_empty())
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
    let of_object = problem(&status, "ObjectFault").unwrap();
    let place = format!("EgressFirewall {}", bad.display());
    assert_eq!(of_object["subject"], place);
    assert_eq!(
        status["collector"]["sources"][0]["unknown"][0],
        "bad/default"
    );
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
    let fault = problem(&status, "NameRefused").unwrap();
    assert_eq!(fault["subject"], "EgressFirewall team/default");
    let sentence = fault["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("2 rules have no effect"), "{fault}");
    let names = status["collector"]["names"].as_array().unwrap();
    let name = names.iter().find(|name| name["name"] == NAME).unwrap();
    assert_eq!(name["addresses"].as_array().unwrap().len(), 1);
    let object = world.store.object(NAME).unwrap().metadata.name.unwrap();
    assert_eq!(name["objects"][0], format!("ovn-kubernetes/{object}"));
    assert_eq!(
        (&name["allowed"], &name["denied"]),
        (&true.into(), &false.into())
    );

    let (code, page) = get_over_unix(&socket, "/").await.unwrap();
    assert_eq!(code, 200, "{page}");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
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
async fn names_and_sets_are_listed_and_a_lost_database_is_a_problem() {
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME, "gone.example.com"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    // The row may be there before the collector has the answer to its write.
    let listed = eventually("the status is written", async || {
        let listed = json(&world.collector, "/status.json?name=WWW&namespace=team").await;
        let listed = listed["collector"].clone();
        let is_written = listed["names"][0]["addresses"][0]["inObject"] == true;
        is_written
            .then_some(listed.clone())
            .ok_or_else(|| listed.to_string())
    })
    .await;
    let [name] = listed["names"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(name["name"], NAME);
    assert_eq!(name["namespaces"], serde_json::json!(["team"]));
    let address = &name["addresses"][0];
    assert_eq!(address["address"], "192.0.2.10");
    let whence = address["seenWhere"].as_str().unwrap();
    assert!(whence.contains("stream"), "{whence}");
    let none = json(&world.collector, "/status.json?namespace=other").await;
    assert_eq!(
        (&none["collector"]["names"], &none["collector"]["next"]),
        (&serde_json::json!([]), &Value::Null)
    );

    let status = json(&world.collector, "/status.json").await;
    let subjects = |status: &Value| {
        let problems = status["problems"].as_array().unwrap().iter();
        let subjects = problems.map(|it| it["subject"].as_str().unwrap().to_owned());
        subjects.collect::<Vec<_>>()
    };
    assert_eq!(subjects(&status), ["gone.example.com."]);
    let sets = json(&world.ovn_writer, "/status.json?name=www").await;
    let set = &sets["ovnWriter"]["sets"][0];
    assert_eq!((&set["name"], &set["family"]), (&NAME.into(), &"v4".into()));
    assert_eq!(set["addresses"], serde_json::json!(["192.0.2.10"]));
    assert_eq!((&set["wanted"], &set["present"]), (&1.into(), &1.into()));

    let status = json(&world.ovn_writer, "/status.json").await;
    assert_eq!(subjects(&status), [""; 0], "{status}");
    let facts = &status["ovnWriter"];
    assert_eq!(facts["database"]["isConnected"], true);
    assert_eq!(facts["database"]["remote"], world.northbound.remote());
    assert_eq!(facts["nameCount"], 3);
    // Its ACLs are not there.
    let unreferenced = facts["unreferenced"].as_array().unwrap();
    assert!(unreferenced.iter().any(|it| it == NAME), "{facts}");
    world.northbound.process().kill();
    eventually("the lost database is a problem", async || {
        let status = json(&world.ovn_writer, "/status.json").await;
        let is_told = subjects(&status) == ["northbound"];
        let is_lost = status["ovnWriter"]["database"]["isConnected"] == false;
        (is_told && is_lost).then_some(()).ok_or(status.to_string())
    })
    .await;
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

//! `--inspect`: the state as a page and as JSON.

use proto::api::Family;
use serde_json::Value;
use tests::{
    admin::Admin,
    programs::Program,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

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
        let listed = json(&world.collector, "/names.json?filter=WWW&namespace=team").await;
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
    let none = json(&world.collector, "/names.json?namespace=other").await;
    assert_eq!(
        (&none["names"], &none["next"]),
        (&serde_json::json!([]), &Value::Null)
    );

    let status = json(&world.collector, "/status.json").await;
    let subjects = |status: &Value| {
        let problems = status["problems"].as_array().unwrap().iter();
        let subjects = problems.map(|it| it["subject"].as_str().unwrap().to_owned());
        subjects.collect::<Vec<_>>()
    };
    assert_eq!(subjects(&status), ["gone.example.com."]);
    let sets = json(&world.ovn_writer, "/sets.json?filter=www").await;
    let set = &sets["sets"][0];
    assert_eq!((&set["name"], &set["family"]), (&NAME.into(), &"v4".into()));
    assert_eq!(set["addresses"], serde_json::json!(["192.0.2.10"]));
    assert_eq!((&set["wanted"], &set["present"]), (&1.into(), &1.into()));

    let status = json(&world.ovn_writer, "/status.json").await;
    assert_eq!(subjects(&status), [""; 0], "{status}");
    assert_eq!(status["database"]["isConnected"], true);
    assert_eq!(status["database"]["remote"], world.northbound.remote());
    assert_eq!(status["names"], 3);
    world.northbound.process().kill();
    eventually("the lost database is a problem", async || {
        let status = json(&world.ovn_writer, "/status.json").await;
        let is_told = subjects(&status) == ["northbound"];
        let is_lost = status["database"]["isConnected"] == false;
        (is_told && is_lost).then_some(()).ok_or(status.to_string())
    })
    .await;
}

//! `--inspect`: what is known, as a page and as JSON.

use std::{fs, os::unix::fs::PermissionsExt};

use proto::api::Family;
use serde_json::Value;
use tests::{
    admin::{Admin, get_over_unix},
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
        let bad = status["badObjects"].as_array().unwrap();
        (!bad.is_empty()).then_some(status.clone()).ok_or(body)
    })
    .await;
    world
        .collector
        .counts(
            "store_undecodable_objects",
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
        assert_eq!(condition["reason"], Value::Null, "{condition}");
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
    // Health and metrics are elsewhere, and what is shown here is not there.
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
    let (code, page) = Admin(address).get("/").await.unwrap();
    assert_eq!(code, 200, "{page}");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
}

#[tokio::test]
async fn idle_connections_to_the_admin_server_do_not_keep_probes_from_their_answer() {
    let world = World::start(Setup::default()).await;
    let admin = world.collector.admin();
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(tokio::net::TcpStream::connect(admin.0).await.unwrap());
    }
    eventually("it is alive", async || match admin.get("/livez").await {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

//! `egress explain` of an ovn-writer: the rows with an address, and the rules that refer to them.

use proto::api::Family::V4;
use tests::{admin::get_over_unix, programs, wait::eventually};

use super::World;

const W: &str = "www.example.com.";

async fn explain(inspect: &str, about: &str, more: &[&str]) -> (Option<i32>, String) {
    let args = [&["explain", about, "--ovn-writer", inspect], more].concat();
    let output = programs::run("egress", &args).await;
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[tokio::test]
async fn an_address_says_its_row_its_acls_and_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let inspect = format!("unix://{}", folder.path().join("inspect.sock").display());
    let (status, error) = explain(&inspect, W, &[]).await;
    assert_eq!(status, Some(2), "{error}");
    assert_has(&error, &["the ovn-writer unix:///", "does not answer"]);

    let world = World::start(&[(W, &["10.0.0.1", "10.0.0.2"])], &["--inspect", &inspect]).await;
    world
        .database
        .expect(W, V4, &["10.0.0.1", "10.0.0.2"])
        .await;
    let (status, text) = explain(&inspect, "10.0.0.1", &[]).await;
    assert_eq!(status, Some(1), "{text}");
    assert_has(
        &text,
        &[
            "10.0.0.1 is not in a set",
            "    10.0.0.1: written ",
            "nothing that counts refers to it",
        ],
    );

    let row = world.database.row(W, V4);
    let expression = format!("ip4.dst == ${}", row.name);
    world.nbctl(&["ls-add", "sw"]);
    world.nbctl(&[
        "acl-add",
        "sw",
        "to-lport",
        "10000",
        &expression,
        "allow-related",
    ]);
    let acl = world.nbctl(&["--bare", "--columns=_uuid", "find", "ACL", "priority=10000"]);
    let owner =
        "external_ids={\"k8s.ovn.org/name\"=team,\"k8s.ovn.org/owner-type\"=EgressFirewall}";
    world.nbctl(&["set", "ACL", acl.trim(), owner]);
    let team = ["--namespace", "team"];
    let text = eventually("the rule is known", async || {
        let (status, text) = explain(&inspect, "10.0.0.1", &team).await;
        if status == Some(0) {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    let set = format!(
        "row {} (v4 of default-network-controller, {})",
        row.name, row.uuid
    );
    assert_has(
        &text,
        &[
            "10.0.0.1 is in a set that rules refer to for namespace team.",
            &set,
        ],
    );
    assert_has(
        &text,
        &["ACL allow-related to-lport 10000 of team, egress[0]"],
    );
    let (status, text) = explain(&inspect, "10.0.0.1", &["--namespace", "other"]).await;
    assert_eq!(status, Some(1), "{text}");
    assert_has(&text, &["rules of other namespaces that refer to it: 1"]);

    // Another client removes an address, and adds control characters that must not reach a terminal.
    let members = "addresses=\"10.0.0.2\",\"<b>\u{1b}[2J\u{9b}\"";
    world.nbctl(&["set", "Address_Set", &row.uuid, members]);
    world
        .database
        .expect(W, V4, &["10.0.0.1", "10.0.0.2"])
        .await;
    let (_, json) = explain(&inspect, W, &["-o", "json"]).await;
    let is_printable = |it| it == '\n' || (' '..='~').contains(&it);
    assert!(json.chars().all(is_printable), "{json}");

    let socket = folder.path().join("inspect.sock");
    let (code, sets) = get_over_unix(&socket, "/status.json").await.unwrap();
    assert_eq!(code, 200, "{sets}");
    assert_has(&sets, &[W, &row.name]);
    let (_, sets) = get_over_unix(&socket, "/status.json?name=%3Cb%3E")
        .await
        .unwrap();
    assert!(!sets.contains(&row.name), "{sets}");
}

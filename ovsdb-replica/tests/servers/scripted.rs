//! The client against a server with scripted answers: what ends a session, and what the next one takes over.

mod server;

use ovsdb_replica::{Error, Event, NextStep, Operation, Outcome};
use serde_json::{Value, json};

use self::server::{Answer, Server, UUID, books, server_schema};

/// The first error of a client of this server, and whether there was a session before.
async fn first_error(server: &Server) -> (bool, Error) {
    let mut client = server.client();
    let following = async {
        loop {
            if let Event::Down { error, was_up, .. } = client.next().await {
                return (was_up, error);
            }
        }
    };
    let ended = server.serve(following).await;
    assert!(client.replica().is_none());
    ended
}

/// A change of the row, up to this transaction.
fn update(transaction: &str, rows: Value) -> String {
    let params = json!([["replica", "Library"], transaction, rows]);
    json!({"id": null, "method": "update3", "params": params}).to_string()
}

#[tokio::test]
async fn client_with_bad_answer_ends_session_before_it_is_up() {
    let served =
        |row: Value| Answer::Result(json!([false, "0", {"Database": {UUID: {"initial": row}}}]));
    let bytes = |bytes: &str| Answer::Bytes(bytes.into());
    let rename = update(
        "0",
        json!({"Book": {UUID: {"modify": {"title": "y".repeat(9000)}}}}),
    );
    let (schema, read) = ("get_schema Library", "monitor_cond_since Library");
    let state = "monitor_cond_since _Server";
    for (method, answer, words) in [
        // Bytes that are no message, or none of this session.
        (schema, bytes("HTTP/1.1 400"), "where a JSON object must"),
        (
            schema,
            bytes(r#"{"id":77,"result":{}}"#),
            "a reply to no request: 77",
        ),
        (
            schema,
            bytes(&format!("{{\"\":\"{}\"}}", "x".repeat(20_000))),
            "at most 10000",
        ),
        // Answers that do not come, or break off.
        (
            schema,
            Answer::Last(b""),
            "the server closed the connection",
        ),
        (
            schema,
            Answer::Silence,
            "no answer to get_schema within 300ms",
        ),
        (read, Answer::Silence, "no answer to monitor_cond_since"),
        // More than the client keeps while it waits for the reply, which comes after it.
        (
            read,
            Answer::After(rename.repeat(500).into(), books()),
            "no answer to monitor_cond_since",
        ),
        // Answers with another content.
        (
            "set_db_change_aware",
            Answer::Error(json!("no")),
            "refuses set_db_change_aware: no",
        ),
        (
            schema,
            Answer::Result(json!([])),
            "the schema cannot be read",
        ),
        (
            state,
            served(json!({"name": "Library", "connected": false})),
            "not connected to its",
        ),
        (
            read,
            Answer::Result(json!({})),
            "reply to a monitor cannot be",
        ),
        (
            read,
            Answer::Result(json!([false, "0", {"Book": {UUID: {"initial": {"title": 3}}}}])),
            "column title: the value is not a string",
        ),
    ] {
        let (was_up, error) = first_error(&Server::new().with(method, answer)).await;
        assert!(
            !was_up && error.to_string().contains(words),
            "{words}: {error}"
        );
    }
}

#[tokio::test]
async fn client_of_old_server_names_version() {
    let unknown = json!({"error": "unknown database", "details": "_Server"});
    for (method, answer, words) in [
        // Before Open vSwitch 2.9, before 2.10, and before 2.16.
        (
            "set_db_change_aware",
            Answer::Error(json!("unknown method")),
            "no _Server database",
        ),
        (
            "get_schema _Server",
            Answer::Error(unknown),
            "no _Server database",
        ),
        (
            "get_schema _Server",
            Answer::Result(server_schema("1.1.0")),
            "has the version 1.1.0",
        ),
    ] {
        let (_, error) = first_error(&Server::new().with(method, answer)).await;
        assert_eq!(error.next_step(), NextStep::Refuse);
        let error = error.to_string();
        assert!(
            error.contains("older than Open vSwitch 2.17") && error.contains(words),
            "{error}"
        );
    }
}

#[tokio::test]
async fn client_with_bad_notification_ends_session() {
    let notify = |method: &str, params: Value| {
        json!({"id": null, "method": method, "params": params}).to_string()
    };
    let lost =
        json!([["server", "_Server"], "0", {"Database": {UUID: {"modify": {"connected": false}}}}]);
    for (unasked, words) in [
        (
            update("0", json!({"Book": {UUID: {"insert": {}}}})),
            "exists already",
        ),
        (update("0", json!([])), "a notification cannot be read"),
        (
            notify("monitor_canceled", json!([["replica", "Library"]])),
            "canceled the monitor",
        ),
        (
            notify("update3", json!([["other", "x"], "0", {}])),
            "update of \"other\"",
        ),
        (
            notify("stolen", json!([])),
            "unexpected notification: stolen",
        ),
        (notify("update3", lost), "not connected to its cluster"),
    ] {
        let (was_up, error) = first_error(&Server::new().with_unasked(unasked)).await;
        assert!(
            was_up && error.to_string().contains(words),
            "{words}: {error}"
        );
    }
}

#[tokio::test]
async fn transaction_ends_in_one_of_three_ways_whatever_server_says() {
    for (answer, expected) in [
        (Answer::Result(json!([{"count": 1}])), "done"),
        (
            Answer::Result(json!([{"error": "timed out"}])),
            "refused: operation 0: timed out",
        ),
        (
            Answer::Error(json!({"error": "unknown database"})),
            "refused: unknown database",
        ),
        (
            Answer::Error(json!("canceled")),
            "unknown: the server refuses transact: canceled",
        ),
        (
            Answer::Result(json!({})),
            "unknown: the reply to a transaction cannot be read",
        ),
        (
            Answer::Silence,
            "unknown: no answer to transact within 300ms",
        ),
        (
            Answer::Bytes(b"nonsense".to_vec()),
            "unknown: the connection is lost: byte 0x6e",
        ),
    ] {
        let server = Server::new().with("transact", answer);
        let mut client = server.client();
        let sending = async {
            assert!(matches!(client.next().await, Event::Up { .. }));
            let (table, filter) = ("Book".into(), vec![]);
            let sent = client
                .transact(vec![Operation::Delete { table, filter }])
                .unwrap();
            match client.next().await {
                Event::Ended { id, outcome } if id == sent => outcome,
                Event::Down { error, unknown, .. } if unknown == [sent] => Outcome::Unknown(error),
                other => panic!("{other:?}"),
            }
        };
        let outcome = match server.serve(sending).await {
            Outcome::Done(_) => "done".to_owned(),
            Outcome::Refused(refusal) => format!("refused: {refusal}"),
            Outcome::Unknown(error) => format!("unknown: {error}"),
        };
        assert!(outcome.starts_with(expected), "{outcome}, not {expected}");
    }
}

#[tokio::test]
async fn next_session_asks_since_last_transaction_if_nothing_is_in_doubt() {
    const NOTHING: &str = "00000000-0000-0000-0000-000000000000";
    let good = update("t2", json!({"Book": {UUID: {"modify": {"title": "y"}}}}));
    let bad = update("t3", json!({"Book": {UUID: {"insert": {"title": "z"}}}}));
    let canceled = r#"{"method":"monitor_canceled","params":[["replica","Library"]]}"#;
    for (unasked, expected) in [
        (String::new(), "0"),
        (good.clone(), "t2"),
        (format!("{good}nonsense"), "t2"),
        (format!("{good}{bad}"), NOTHING),
        (format!("{good}{canceled}"), NOTHING),
        // It belongs to another kind of monitor.
        (
            format!("{good}{}", good.replace("update3", "update2")),
            NOTHING,
        ),
    ] {
        let server = Server::new().with_unasked(unasked.clone()).hanging_up();
        let mut client = server.client();
        let following = async {
            for _ in 0..2 {
                while !matches!(client.next().await, Event::Up { .. }) {}
            }
        };
        server.serve(following).await;
        assert_eq!(*server.since.borrow(), [NOTHING, expected], "{unasked}");
    }
}

#[tokio::test]
async fn resumed_session_adds_changes_to_replica() {
    let mut server = Server::new();
    let mut client = server.client();
    let event = server.serve(client.next()).await;
    assert!(
        matches!(event, Event::Up { resumed: false, .. }),
        "{event:?}"
    );
    client.restart();
    let happened = json!([true, "t2", {"Book": {UUID: {"modify": {"title": "y"}}}}]);
    server = server.with("monitor_cond_since Library", Answer::Result(happened));
    let event = server.serve(client.next()).await;
    assert!(
        matches!(event, Event::Up { resumed: true, .. }),
        "{event:?}"
    );
    let titles: Vec<_> = client.replica().unwrap().keys().collect();
    assert_eq!(titles, ["y"]);
}

//! The OVSDB client against a server with scripted answers.

mod resuming;
mod server;

use std::time::Duration;

use ovsdb_replica::{Error, Event, NextStep, Operation, Outcome};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::server::{Answer, ECHOES, Server, UUID, server_schema};

const PATIENCE: Duration = Duration::from_secs(30);

/// The client's result with a server: its first events until it goes down.
async fn end(server: &Server, unasked: &[u8]) -> (bool, Error) {
    let mut client = server.client();
    let following = async {
        let mut was_up = false;
        loop {
            match client.next().await {
                Event::Up { .. } => was_up = true,
                Event::Changed(_) | Event::Ended { .. } | Event::Responsive(_) => {}
                Event::Down {
                    error,
                    was_up: said,
                    ..
                } => {
                    assert_eq!(said, was_up);
                    assert!(client.replica().is_none());
                    return (was_up, error);
                }
            }
        }
    };
    tokio::select! {
        end = timeout(PATIENCE, following) => end.expect("the client gives the server up"),
        () = async { loop { server.serve(unasked).await } } => panic!("no end"),
    }
}

fn update(rows: Value) -> Vec<u8> {
    let params = json!([["replica", "Library"], "0", rows]);
    json!({"id": null, "method": "update3", "params": params})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn a_server_that_disconnects_or_sends_garbage_is_left_before_it_is_used() {
    let deep = format!(r#"{{"id":1,"result":{}"#, "[".repeat(10_000)).into_bytes();
    let long = format!(r#"{{"id":1,"result":"{}"}}"#, "x".repeat(20_000)).into_bytes();
    for (bytes, words) in [
        (
            b"HTTP/1.1 400 Bad Request".to_vec(),
            "where a JSON object must start",
        ),
        (b"{\"id\":4,\"result\":{]}".to_vec(), "not JSON-RPC"),
        (b"{\"id\":4,\"result\":\"\xff\"}".to_vec(), "not JSON-RPC"),
        (b"{}".to_vec(), "neither a method nor an id"),
        (
            b"{\"id\":77,\"result\":{}}".to_vec(),
            "a reply to no request",
        ),
        (
            b"{\"id\":\"x\",\"result\":{}}".to_vec(),
            "a reply to no request",
        ),
        (
            b"{\"id\":0,\"result\":{}}".to_vec(),
            "a reply to no request",
        ),
        (
            b"{\"id\":1,\"method\":\"steal\",\"params\":[]}".to_vec(),
            "steal",
        ),
        (deep, "nested more than 32 deep"),
        (
            long,
            "a message of 20020 bytes, and at most 10000 are accepted",
        ),
    ] {
        let server = Server::new().with("get_schema", Answer::Bytes(bytes.clone()));
        let (was_up, error) = end(&server, b"").await;
        let bytes = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(
            !was_up && error.to_string().contains(words),
            "{bytes}: {error}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for (bytes, words) in [
        (&b""[..], "the server closed the connection"),
        (
            &b"{\"id\":1,\"result\":{\"na"[..],
            "the stream ended 21 bytes into a message",
        ),
    ] {
        let server = Server::new().with("get_schema", Answer::Last(bytes.to_vec()));
        let (was_up, error) = end(&server, b"").await;
        assert!(!was_up && error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off_at_the_bound() {
    let server = Server::new().with(
        "get_schema",
        Answer::Endless(b"{\"id\":1,\"result\":\"x".to_vec()),
    );
    let (was_up, error) = end(&server, b"").await;
    assert!(
        !was_up && error.to_string().contains("at most 10000 are accepted"),
        "{error}"
    );
    // The content of the sockets, and no more.
    assert!(
        server.taken.get() < 4 << 20,
        "{} bytes were taken",
        server.taken.get()
    );
}

#[tokio::test]
async fn an_unknown_or_a_second_reply_ends_the_session_and_is_named() {
    for (unasked, words) in [
        (
            &br#"{"id":4,"result":[],"error":null}"#[..],
            "a reply to no request: 4",
        ),
        (
            br#"{"id":{"a":[]},"result":[]}"#,
            r#"a reply to no request: {"a":[]}"#,
        ),
        (br#"{"id":1.5,"error":{}}"#, "a reply to no request: 1.5"),
        (br#"{"jsonrpc":"2.0","id":3}"#, "a reply to no request: 3"),
    ] {
        let (was_up, error) = end(&Server::new(), unasked).await;
        assert!(was_up && error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_before_open_vswitch_2_17_is_refused_with_its_version() {
    for (method, answer, version) in [
        // Before Open vSwitch 2.9, before 2.10, and before 2.16.
        (
            "set_db_change_aware",
            Answer::Error(json!("unknown method")),
            "it has no _Server database",
        ),
        (
            "get_schema _Server",
            Answer::Error(json!({"error": "unknown database", "details": "_Server"})),
            "it has no _Server database",
        ),
        (
            "get_schema _Server",
            Answer::Result(server_schema("1.1.0")),
            "its _Server schema has the version 1.1.0, and 1.2.0 is needed",
        ),
    ] {
        let server = Server::new().with(method, answer);
        let (was_up, error) = end(&server, b"").await;
        assert!(!was_up && error.next_step() == NextStep::Refuse);
        assert_eq!(
            error.to_string(),
            format!("the server is older than Open vSwitch 2.17: {version}")
        );
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_end_the_session() {
    let served =
        |row: Value| Answer::Result(json!([false, "0", {"Database": {UUID: {"initial": row}}}]));
    for (method, answer, words) in [
        (
            "set_db_change_aware",
            Answer::Error(json!("no")),
            "refuses set_db_change_aware: no",
        ),
        (
            "get_schema",
            Answer::Silence,
            "no answer to get_schema within 300ms",
        ),
        (
            "get_schema",
            Answer::Result(json!([])),
            "the schema cannot be read",
        ),
        (
            "get_schema",
            Answer::Error(json!({"error": "unknown database", "details": "Library"})),
            "refuses get_schema: unknown database: Library",
        ),
        (
            "monitor_cond_since _Server",
            served(json!({"name": "Library", "connected": false})),
            "not connected to its cluster",
        ),
        (
            "monitor_cond_since _Server",
            served(json!({"name": "Other", "connected": true})),
            "does not serve the database",
        ),
        (
            "monitor_cond_since Library",
            Answer::Silence,
            "no answer to monitor_cond_since",
        ),
        (
            "monitor_cond_since Library",
            Answer::Result(json!([false, "0", {"Shop": {UUID: {"initial": {}}}}])),
            "the table Shop",
        ),
        (
            "monitor_cond_since Library",
            Answer::Result(json!([false, "0", {"Book": {UUID: {"initial": {"title": 3}}}}])),
            "column title: the value is not a string",
        ),
        (
            "monitor_cond_since Library",
            Answer::Result(json!({})),
            "reply to a monitor cannot be",
        ),
    ] {
        let server = Server::new().with(method, answer);
        let (was_up, error) = end(&server, b"").await;
        assert!(
            !was_up && error.to_string().contains(words),
            "{method}: {error}"
        );
    }
}

#[tokio::test]
async fn updates_that_do_not_fit_end_the_session() {
    let unknown = "11111111-9d01-481e-aaf8-d194f26edc55";
    let canceled =
        json!({"id": null, "method": "monitor_canceled", "params": [["replica", "Library"]]});
    let foreign = json!({"id": null, "method": "update3", "params": [["other", "x"], "0", {}]});
    let cut = json!({"id": null, "method": "update3", "params": [
        ["server", "_Server"], "0", {"Database": {UUID: {"modify": {"connected": false}}}}
    ]});
    for (unasked, words) in [
        (
            update(json!({"Book": {UUID: {"insert": {}}}})),
            "exists already",
        ),
        (
            update(json!({"Book": {unknown: {"delete": null}}})),
            "does not exist",
        ),
        (
            update(json!({"Shop": {UUID: {"delete": null}}})),
            "the table Shop",
        ),
        (
            update(json!({"Book": {UUID: {"rename": {}}}})),
            "a notification cannot be read",
        ),
        (update(json!([])), "a notification cannot be read"),
        (
            canceled.to_string().into_bytes(),
            "canceled the monitor of Library",
        ),
        (
            foreign.to_string().into_bytes(),
            "unexpected notification: update of \"other\"",
        ),
        (cut.to_string().into_bytes(), "not connected to its cluster"),
        (
            br#"{"method":"stolen","params":["x"]}"#.to_vec(),
            "unexpected notification: stolen",
        ),
    ] {
        let (was_up, error) = end(&Server::new(), &unasked).await;
        assert!(
            was_up && error.to_string().contains(words),
            "{words}: {error}"
        );
    }
}

#[tokio::test]
async fn updates_are_taken_in_their_order_and_echoes_answered_between_them() {
    let server = Server::new();
    let echo = br#"{"method":"echo","params":[],"id":"echo"}"#.to_vec();
    let rename = |n: usize| update(json!({"Book": {UUID: {"modify": {"title": format!("t{n}")}}}}));
    let unasked: Vec<_> = (0..100)
        .flat_map(|n| [rename(n), echo.clone()].concat())
        .collect();
    let mut client = server.client();
    let following = async {
        let mut seen = Vec::new();
        loop {
            match client.next().await {
                Event::Up { .. } | Event::Responsive(_) => {}
                Event::Changed(_) => {
                    seen.extend(
                        client
                            .replica()
                            .unwrap()
                            .iter()
                            .map(|(_, book)| book.title.clone()),
                    );
                }
                Event::Ended { .. } => panic!("nothing was sent"),
                Event::Down { .. } => return seen,
            }
        }
    };
    let (seen, ()) = tokio::join!(timeout(PATIENCE, following), server.serve(&unasked));
    assert_eq!(
        seen.unwrap(),
        (0..ECHOES).map(|n| format!("t{n}")).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn an_unread_flood_holds_the_server_back_and_loses_nothing() {
    let server = Server::new();
    let mut client = server.client();
    // Few long and many short ones, more than the inbox holds.
    let (long, short) = ("l".repeat(9_000), "s".to_owned());
    let titles = std::iter::repeat_n(long, 3_000).chain(std::iter::repeat_n(short, 10_000));
    let updates = titles.enumerate().map(|(n, title)| {
        update(json!({"Book": {UUID: {"modify": {"title": format!("{n}{title}")}}}}))
    });
    let flood: Vec<_> = updates.flatten().collect();
    let following = async {
        assert!(matches!(client.next().await, Event::Up { .. }));
        // The client reads nothing while the server writes, so the server is blocked.
        let said = timeout(Duration::from_secs(3), server.said.notified());
        assert!(said.await.is_err(), "all of it was taken");
        for n in 0..13_000 {
            match client.next().await {
                Event::Changed(_) => {}
                other => panic!("{n}: {other:?}"),
            }
            // A client that reads slowly still sends signs of life.
            if n == 0 {
                let said = timeout(Duration::from_secs(3), server.said.notified());
                assert!(said.await.is_err(), "all of it was taken");
            }
        }
        let last = "12999s".to_owned();
        assert_eq!(client.replica().unwrap().with_key(&last).count(), 1);
        while server.probes.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = timeout(PATIENCE, following) => ended.unwrap(),
        () = server.serve(&flood) => panic!("the connection ended"),
    }
}

#[tokio::test]
async fn what_comes_before_an_answer_is_kept_within_bounds() {
    let title = "x".repeat(9_000);
    let unasked = update(json!({"Book": {UUID: {"modify": {"title": title}}}})).repeat(2_000);
    let server = Server::new().with("monitor_cond_since Library", Answer::Bytes(unasked));
    let mut client = server.client_within(PATIENCE);
    let event = tokio::select! {
        event = client.next() => event,
        () = async { loop { server.serve(b"").await } } => panic!("no end"),
    };
    let words = "too many before the reply to monitor_cond_since";
    match event {
        Event::Down { error, .. } => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn transactions_end_in_one_of_three_ways_whatever_the_server_says() {
    for (answer, expected) in [
        (Answer::Result(json!([{"count": 1}])), "done"),
        (
            Answer::Result(json!([{"error": "timed out"}])),
            "refused: operation 0: timed out",
        ),
        (
            Answer::Result(json!([{"count": 1}, {"error": "constraint violation"}])),
            "refused: constraint",
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
            Answer::Result(json!([])),
            "unknown: the reply to a transaction cannot be read: 0 results of 1 operations",
        ),
        (
            Answer::Result(json!([{}])),
            "unknown: the reply to a transaction cannot be read: the result of operation 0 has no count",
        ),
        (
            Answer::Result(json!([{"error": 5}])),
            "unknown: the reply to a transaction cannot be read",
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
        (
            Answer::Bytes(b"{\"id\":99,\"result\":[]}".to_vec()),
            "unknown: the connection is lost",
        ),
    ] {
        let server = Server::new().with("transact", answer);
        let mut client = server.client();
        let sending = async {
            assert!(matches!(client.next().await, Event::Up { .. }));
            let delete = Operation::Delete {
                table: "Book".into(),
                filter: vec![],
            };
            let sent = client.transact(vec![delete]).unwrap();
            let outcome = match client.next().await {
                Event::Ended { id, outcome } if id == sent => outcome,
                Event::Down { error, unknown, .. } if unknown == [sent] => Outcome::Unknown(error),
                other => panic!("{other:?}"),
            };
            match outcome {
                Outcome::Done(_) => "done".to_owned(),
                Outcome::Refused(refusal) => format!("refused: {refusal}"),
                Outcome::Unknown(error) => format!("unknown: {error}"),
            }
        };
        let outcome = tokio::select! {
            outcome = timeout(PATIENCE, sending) => outcome.unwrap(),
            () = async { loop { server.serve(b"").await } } => panic!("no end"),
        };
        assert!(outcome.starts_with(expected), "{outcome}, not {expected}");
    }
}

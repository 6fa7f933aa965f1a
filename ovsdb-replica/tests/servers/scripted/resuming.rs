//! The state that a session takes over from the one before.

use ovsdb_replica::{Client, Event};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    PATIENCE,
    server::{Answer, Book, Server, UUID},
};

/// The transactions since which a client requests changes, in its first and in its second session. In between the
/// server sends `unasked` and disconnects.
async fn since(server: &Server, unasked: &[u8]) -> Vec<String> {
    let mut client = server.client();
    let following = async {
        let mut ups = 0;
        while ups < 2 {
            if let Event::Up { .. } = client.next().await {
                ups += 1;
            }
        }
    };
    tokio::select! {
        end = timeout(PATIENCE, following) => end.expect("two sessions"),
        () = async { loop { server.serve(unasked).await } } => panic!("no end"),
    }
    server.since.borrow().clone()
}

#[tokio::test]
async fn a_session_goes_on_where_the_last_one_ended_if_nothing_is_in_doubt() {
    const NOTHING: &str = "00000000-0000-0000-0000-000000000000";
    let rename = |id: &str, change: Value| {
        let params = json!([["replica", "Library"], id, {"Book": {UUID: change}}]);
        json!({"id": null, "method": "update3", "params": params})
            .to_string()
            .into_bytes()
    };
    let good = rename("t2", json!({"modify": {"title": "y"}}));
    let bad = rename("t3", json!({"insert": {"title": "z"}}));
    let canceled =
        json!({"id": null, "method": "monitor_canceled", "params": [["replica", "Library"]]});
    let old = json!({"id": null, "method": "update2", "params":
        [["replica", "Library"], {"Book": {UUID: {"modify": {"title": "y"}}}}]});
    for (unasked, expected) in [
        (Vec::new(), "0"),
        (good.clone(), "t2"),
        ([good.clone(), b"nonsense".to_vec()].concat(), "t2"),
        ([good.clone(), bad].concat(), NOTHING),
        (
            [good.clone(), canceled.to_string().into_bytes()].concat(),
            NOTHING,
        ),
        // It belongs to another kind of monitor.
        ([good, old.to_string().into_bytes()].concat(), NOTHING),
    ] {
        let asked = since(&Server::new().hanging_up(), &unasked).await;
        let unasked = String::from_utf8(unasked).unwrap();
        assert_eq!(asked, [NOTHING, expected], "{unasked}");
    }
}

#[tokio::test]
async fn what_happened_since_is_added_to_what_is_known() {
    let happened = json!({"Book": {UUID: {"modify": {"title": "y"}}}});
    let mut server = Server::new();
    let mut client = server.client();
    let titles = |client: &Client<Book>| -> Vec<String> {
        let rows = client.replica().unwrap().iter();
        rows.map(|(_, book)| book.title.clone()).collect()
    };
    let first = async {
        assert!(matches!(
            client.next().await,
            Event::Up { resumed: false, .. }
        ));
    };
    tokio::select! {
        () = first => {}
        () = server.serve(b"") => panic!("no session"),
    }
    assert_eq!(titles(&client), ["x"]);
    client.restart();
    server = server.with(
        "monitor_cond_since Library",
        Answer::Result(json!([true, "t2", happened])),
    );
    let second = async {
        loop {
            if let Event::Up { resumed, .. } = client.next().await {
                return resumed;
            }
        }
    };
    let resumed = tokio::select! {
        resumed = timeout(PATIENCE, second) => resumed.unwrap(),
        () = async { loop { server.serve(b"").await } } => panic!("no session"),
    };
    assert!(resumed);
    assert_eq!(titles(&client), ["y"]);
    assert_eq!(
        *server.since.borrow(),
        ["00000000-0000-0000-0000-000000000000", "0"]
    );
}

//! Messages of version 1.0, and their translation for jsonrpsee. Random ones are in the fuzz target `json_rpc`.

use jsonrpsee_types::Id;

use super::*;

fn bytes(message: &str) -> BytesMut {
    BytesMut::from(message)
}

fn read(message: &str) -> String {
    match incoming(bytes(message)).unwrap() {
        Incoming::Reply(Reply { id, result }) => match result {
            Ok(result) => format!("reply to {id}: {}", result.lossy()),
            Err(error) => format!("refusal of {id}: {}", error.lossy()),
        },
        Incoming::Notification(Notification { method, params }) => {
            format!("notification {method}: {}", params.lossy())
        }
        Incoming::Echo(reply) => format!("echo: {}", String::from_utf8_lossy(&reply)),
        Incoming::ProbeReply => "reply to our probe".to_owned(),
    }
}

#[test]
fn incoming_message_is_told_by_its_members() {
    for (message, expected) in [
        (
            r#"{"id":4,"result":[{"count":1}],"error":null}"#,
            r#"reply to 4: [{"count":1}]"#,
        ),
        (
            r#"{ "error" : null, "result":null, "id":4 }"#,
            "reply to 4: null",
        ),
        (
            r#" {"result" : [{"error":null,"id":1},"\"error\":null"], "x":{"error":2}, "error": null,"id":7} "#,
            r#"reply to 7: [{"error":null,"id":1},"\"error\":null"]"#,
        ),
        (r#"{"\u0065rror":"no","id":1}"#, r#"refusal of 1: "no""#),
        (
            r#"{"id":null,"method":"update3","params":[["a","b"],"0",{}]}"#,
            r#"notification update3: [["a","b"],"0",{}]"#,
        ),
        (
            r#"{"method":"monitor_canceled","params":["x"]}"#,
            r#"notification monitor_canceled: ["x"]"#,
        ),
        (
            r#"{"method":"echo","params":["x",1],"id":"echo"}"#,
            r#"echo: {"id":"echo","result":["x",1],"error":null}"#,
        ),
        (
            r#"{"id":"probe","result":[],"error":null}"#,
            "reply to our probe",
        ),
    ] {
        assert_eq!(read(message), expected);
    }
}

#[test]
fn incoming_other_json_is_refused() {
    for message in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"id":null}"#,
        r#"{"id":1,"error":null}"#,
        r#"{"id":1,"method":"transact","params":[]}"#,
        r#"{"id":"1","result":[]}"#,
        r#"{"id":1,"result":[],"id":1}"#,
        r#"{"id":1,"result":[],"result":[]}"#,
        r#"{"id":1,"result":{]}"#,
        r#"{"id":1,"result":1}{}"#,
        r#"{"method":5}"#,
        "{]",
    ] {
        assert!(incoming(bytes(message)).is_err(), "{message}");
    }
    assert!(incoming(b"{\"id\":1,\"result\":\"\xff\"}"[..].into()).is_err());
}

#[test]
fn outgoing_request_has_version_1() {
    let params = serde_json::value::to_raw_value(&("db", 1)).unwrap();
    let id = Id::Number(7);
    let request = jsonrpsee_types::Request::owned("transact".to_owned(), Some(params), id);
    let request = serde_json::to_string(&request).unwrap();
    assert_eq!(
        outgoing(&request).unwrap(),
        r#"{"id":7,"method":"transact","params":["db",1]}"#.as_bytes()
    );
    assert!(outgoing(r#"{"id":7}"#).is_err());
}

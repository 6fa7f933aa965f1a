//! Messages of version 1.0, and what jsonrpsee makes of them.

use jsonrpsee_types::{Response, ResponsePayload};
use proptest::prelude::*;

use super::*;

fn bytes(message: &str) -> BytesMut {
    BytesMut::from(message)
}

/// What jsonrpsee reads: the id, and the result or the error's data.
fn rpc(reply: &[u8]) -> String {
    let reply: Response<'_, &RawValue> = serde_json::from_slice(reply).unwrap();
    match reply.payload {
        ResponsePayload::Success(result) => format!("reply to {}: {result}", reply.id),
        ResponsePayload::Error(error) => {
            format!("refusal of {}: {}", reply.id, error.data().unwrap())
        }
    }
}

fn read(message: &str) -> String {
    match incoming(bytes(message)).unwrap() {
        Incoming::Reply { reply, long, .. } => {
            assert!(long.is_none());
            rpc(&reply)
        }
        Incoming::Notification(Notification { method, params }) => {
            format!("notification {method}: {}", params.lossy())
        }
        Incoming::Echo(reply) => format!("echo: {}", String::from_utf8_lossy(&reply)),
        Incoming::ProbeReply => "reply to our probe".to_owned(),
    }
}

#[test]
fn messages_are_told_apart() {
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
            r#"{"id":4,"result":{"error":null,"id":5},"error":null}"#,
            r#"reply to 4: {"error":null,"id":5}"#,
        ),
        (
            r#"{"id":15,"error":"unknown method"}"#,
            r#"refusal of 15: "unknown method""#,
        ),
        (
            r#"{"id":12,"result":null,"error":{"error":"unknown database","details":"x"}}"#,
            r#"refusal of 12: {"error":"unknown database","details":"x"}"#,
        ),
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
fn what_is_no_message_is_refused() {
    for message in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"id":null}"#,
        r#"{"id":1,"method":"transact","params":[]}"#,
        r#"{"id":"1","result":[]}"#,
        r#"{"id":1,"result":[],"id":1}"#,
        r#"{"method":5}"#,
        "{]",
    ] {
        assert!(incoming(bytes(message)).is_err(), "{message}");
    }
}

#[test]
fn what_is_not_json_is_left_to_jsonrpsee() {
    for message in [
        &br#"{"id":1,"result":{]}"#[..],
        b"{\"id\":1,\"result\":\"\xff\"}",
    ] {
        let Incoming::Reply { reply, .. } = incoming(message.into()).unwrap() else {
            panic!("it is a reply");
        };
        assert!(serde_json::from_slice::<Response<'_, &RawValue>>(&reply).is_err());
    }
}

#[test]
fn a_long_result_is_there_once_and_jsonrpsee_gets_a_placeholder() {
    let result = "x".repeat(LONG_MESSAGE);
    let message = bytes(&format!(r#"{{"id":1,"result":"{result}","error":null}}"#));
    let range = message.as_ptr_range();
    let Incoming::Reply { id, reply, long } = incoming(message).unwrap() else {
        panic!("it is a reply");
    };
    assert_eq!((id, rpc(&reply).as_str()), (1, "reply to 1: null"));
    let long = long.unwrap();
    assert!(range.contains(&long.0.as_ptr()));
    assert_eq!(long.read::<&str>().unwrap(), result);
}

#[test]
fn a_short_notification_is_not_kept_with_its_buffer() {
    for (length, is_shared) in [(10, false), (LONG_MESSAGE + 1, true)] {
        let params = "x".repeat(length);
        let message = bytes(&format!(r#"{{"method":"m","params":"{params}"}}"#));
        let range = message.as_ptr_range();
        let Incoming::Notification(notification) = incoming(message).unwrap() else {
            panic!("it is a notification");
        };
        assert_eq!(range.contains(&notification.params.0.as_ptr()), is_shared);
        assert_eq!(notification.params.read::<&str>().unwrap(), params);
    }
}

#[test]
fn a_request_goes_out_as_version_1_has_it() {
    let params = serde_json::value::to_raw_value(&("db", 1)).unwrap();
    let id = jsonrpsee_types::Id::Number(7);
    let request = jsonrpsee_types::Request::owned("transact".to_owned(), Some(params), id);
    let request = serde_json::to_string(&request).unwrap();
    assert_eq!(
        outgoing(request).unwrap(),
        r#"{"id":7,"method":"transact","params":["db",1]}"#.as_bytes()
    );
    assert!(outgoing(r#"{"id":7}"#.to_owned()).is_err());
}

/// Text that looks like members, and the other values that there are.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof!["\"error\":null|,\"id\":2\\}|\\\\|\\[|\\}", ".{0,6}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(serde_json::Value::from),
        text.prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("error|id|result|.{0,3}", inner, 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_result_reaches_jsonrpsee_as_it_is(
        result in value(), id in any::<u64>(), order in 0_usize..6, space in "[ \n\t]{0,2}",
    ) {
        let members = [
            format!(r#""id":{space}{id}"#),
            format!(r#""result"{space}:{result}"#),
            format!(r#""error":null{space}"#),
        ];
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
        let message = format!("{{{}}}", order.map(|at| members[at].as_str()).join(","));
        prop_assert_eq!(read(&message), format!("reply to {id}: {result}"));
    }

    #[test]
    fn any_refusal_reaches_jsonrpsee_in_full(error in value(), id in any::<u64>()) {
        prop_assume!(!error.is_null());
        let message = format!(r#"{{"id":{id},"result":null,"error":{error}}}"#);
        prop_assert_eq!(read(&message), format!("refusal of {id}: {error}"));
    }

    #[test]
    fn any_bytes_are_a_message_or_refused(message in prop::collection::vec(any::<u8>(), 0..64)) {
        drop(incoming(message.as_slice().into()));
    }
}

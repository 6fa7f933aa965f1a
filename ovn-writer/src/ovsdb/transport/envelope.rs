//! JSON-RPC 1.0, which OVSDB speaks (RFC 7047 section 4), and JSON-RPC 2.0, which jsonrpsee speaks: pure translation of one
//! message each way.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The one method under which every notification reaches jsonrpsee, so that their order holds.
pub(crate) const FUNNEL: &str = "notification";

/// The code of every error of the server: OVSDB has words, no codes.
const SERVER_ERROR: i32 = -32000;

/// What jsonrpsee writes in front of every request, and OVSDB closes the connection for.
const VERSION_2: &[u8] = br#"{"jsonrpc":"2.0","#;

/// Our own `echo`, sent when nothing else comes.
pub(crate) const PROBE: &[u8] = br#"{"method":"echo","params":[],"id":"probe"}"#;
const PROBE_ID: &str = r#""probe""#;

/// A message that cannot be translated.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is no JSON, or not an object as JSON-RPC has it.
    #[error("a message that is not JSON-RPC: {0}")]
    Json(#[from] serde_json::Error),
    /// It is neither request, reply nor notification.
    #[error("a message with neither a method nor an id")]
    Neither,
    /// The server asks for something that a client does not have.
    #[error("the server calls the method {0:?}, which a client does not have")]
    Call(String),
    /// A request without the head that all requests of jsonrpsee have.
    #[error("a request that does not start with its version")]
    Request,
}

/// What came from the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// A reply or a notification, for jsonrpsee.
    Message(Vec<u8>),
    /// The server asks whether we are there; this is the answer.
    Echo(Vec<u8>),
    /// The answer to our own [`PROBE`].
    ProbeReply,
}

/// Every member of every kind of message; `null` is as good as absent.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ReplyError<'a>>,
}

#[derive(Serialize)]
struct ReplyError<'a> {
    code: i32,
    message: &'static str,
    data: &'a RawValue,
}

#[derive(Serialize)]
struct Funnelled<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: Notification<'a>,
}

/// The parameters of a [`FUNNEL`] notification: what the server sent.
#[derive(Serialize)]
struct Notification<'a> {
    method: &'a str,
    params: &'a RawValue,
}

/// Translates a message of the server.
pub(crate) fn incoming(bytes: &[u8]) -> Result<Incoming, EnvelopeError> {
    let message: Envelope<'_> = serde_json::from_slice(bytes)?;
    match (message.method, message.id) {
        (Some(method), Some(id)) if method == "echo" => {
            let result = message.params.map_or("[]", RawValue::get);
            let reply = format!(r#"{{"id":{id},"result":{result},"error":null}}"#);
            Ok(Incoming::Echo(reply.into_bytes()))
        }
        (Some(method), Some(_)) => Err(EnvelopeError::Call(method)),
        (Some(method), None) => {
            let params = Notification {
                method: &method,
                params: message.params.unwrap_or(RawValue::NULL),
            };
            let message = Funnelled {
                jsonrpc: "2.0",
                method: FUNNEL,
                params,
            };
            Ok(Incoming::Message(serde_json::to_vec(&message)?))
        }
        (None, Some(id)) if id.get() == PROBE_ID => Ok(Incoming::ProbeReply),
        (None, Some(id)) => {
            let error = message.error.map(|data| ReplyError {
                code: SERVER_ERROR,
                message: "refused",
                data,
            });
            let result = match error {
                Some(_) => None,
                None => Some(message.result.unwrap_or(RawValue::NULL)),
            };
            Ok(Incoming::Message(serde_json::to_vec(&Reply {
                jsonrpc: "2.0",
                id,
                result,
                error,
            })?))
        }
        (None, None) => Err(EnvelopeError::Neither),
    }
}

/// Translates a request of jsonrpsee, without copying it.
pub(crate) fn outgoing(request: String) -> Result<Bytes, EnvelopeError> {
    let mut bytes = request.into_bytes();
    if !bytes.starts_with(VERSION_2) {
        return Err(EnvelopeError::Request);
    }
    // The object now opens where its version ended.
    let start = VERSION_2.len() - 1;
    if let Some(comma) = bytes.get_mut(start) {
        *comma = b'{';
    }
    Ok(Bytes::from(bytes).slice(start..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(message: &str) -> String {
        match incoming(message.as_bytes()).unwrap() {
            Incoming::Message(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn replies_become_those_of_version_2() {
        assert_eq!(
            translated(r#"{"id":4,"result":[{"count":1}],"error":null}"#),
            r#"{"jsonrpc":"2.0","id":4,"result":[{"count":1}]}"#
        );
        assert_eq!(
            translated(r#"{"error":null,"result":null,"id":4}"#),
            r#"{"jsonrpc":"2.0","id":4,"result":null}"#
        );
        assert_eq!(
            translated(r#"{"id":15,"error":"unknown method"}"#),
            r#"{"jsonrpc":"2.0","id":15,"error":{"code":-32000,"message":"refused","data":"unknown method"}}"#
        );
        assert_eq!(
            translated(
                r#"{"id":12,"result":null,"error":{"error":"unknown database","details":"x"}}"#
            ),
            r#"{"jsonrpc":"2.0","id":12,"error":{"code":-32000,"message":"refused","data":{"error":"unknown database","details":"x"}}}"#
        );
    }

    #[test]
    fn notifications_pass_through_one_funnel() {
        assert_eq!(
            translated(r#"{"id":null,"method":"update3","params":[["a","b"],"0",{}]}"#),
            r#"{"jsonrpc":"2.0","method":"notification","params":{"method":"update3","params":[["a","b"],"0",{}]}}"#
        );
        assert_eq!(
            translated(r#"{"method":"monitor_canceled","params":["x"]}"#),
            r#"{"jsonrpc":"2.0","method":"notification","params":{"method":"monitor_canceled","params":["x"]}}"#
        );
    }

    #[test]
    fn an_echo_is_answered_with_what_it_brought() {
        assert_eq!(
            incoming(br#"{"method":"echo","params":["x",1],"id":"echo"}"#).unwrap(),
            Incoming::Echo(br#"{"id":"echo","result":["x",1],"error":null}"#.to_vec())
        );
        let probed = incoming(br#"{"id":"probe","result":[],"error":null}"#).unwrap();
        assert_eq!(probed, Incoming::ProbeReply);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"id":null}"#,
            r#"{"id":1,"method":"transact","params":[]}"#,
            "{]",
        ] {
            assert!(incoming(text.as_bytes()).is_err(), "{text}");
        }
        assert!(incoming(&[b'{', b'"', 0xff, b'"', b':', b'1', b'}']).is_err());
    }

    #[test]
    fn requests_lose_the_version() {
        let request = r#"{"jsonrpc":"2.0","id":0,"method":"transact","params":["db"]}"#;
        assert_eq!(
            outgoing(request.to_owned()).unwrap(),
            r#"{"id":0,"method":"transact","params":["db"]}"#.as_bytes()
        );
        assert!(outgoing(r#"{"id":0,"jsonrpc":"2.0"}"#.to_owned()).is_err());
    }
}

//! Messages of JSON-RPC 1.0 as OVSDB has them (RFC 7047 section 4): what a client sends, and what comes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::LONG_MESSAGE;

/// Our own `echo`, sent when nothing else comes.
pub(crate) const PROBE: &[u8] = br#"{"method":"echo","params":[],"id":"probe"}"#;
const PROBE_ID: &str = r#""probe""#;

/// A message that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is no JSON, or not an object as JSON-RPC has it.
    #[error("a message that is not JSON-RPC: {0}")]
    Json(#[from] serde_json::Error),
    /// It is neither request, reply nor notification.
    #[error("a message with neither a method nor an id")]
    Neither,
    /// The server asks for something that a client does not have.
    #[error("the server calls the method {0:?}, which a client does not have")]
    Call(String),
    /// A reply bears an id that no request has.
    #[error("a reply to no request: {0}")]
    NoRequest(String),
}

/// What came from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The answer to a request.
    Reply(Reply),
    /// What was not asked for.
    Notification(Notification),
    /// The server asks whether we are there; this is the answer.
    Echo(Bytes),
    /// The answer to our own [`PROBE`].
    ProbeReply,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The request's id.
    pub(crate) id: u64,
    /// The result, or the error.
    pub(crate) result: Result<Text, Text>,
}

/// What the server says unasked.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Text,
}

/// A JSON value as it stands in a message.
#[derive(Clone, Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    /// One of a long message shares its bytes, as there may not be room for them twice. A short one is copied: it stands in a
    /// buffer with others, which would be kept with it.
    fn of(message: &Bytes, value: Option<&RawValue>) -> Self {
        let Some(value) = value else {
            return Self(Bytes::from_static(b"null"));
        };
        let bytes = value.get().as_bytes();
        Self(if message.len() > LONG_MESSAGE {
            message.slice_ref(bytes)
        } else {
            Bytes::copy_from_slice(bytes)
        })
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What it says, as far as it can be borrowed.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The text itself.
    pub(crate) fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

#[cfg(test)]
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
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

/// Reads a message of the server.
pub(crate) fn incoming(bytes: &Bytes) -> Result<Incoming, MessageError> {
    let message: Envelope<'_> = serde_json::from_slice(bytes)?;
    let text = |value| Text::of(bytes, value);
    Ok(match (message.method, message.id) {
        (Some(method), Some(id)) if method == "echo" => {
            let result = message.params.map_or("[]", RawValue::get);
            let reply = format!(r#"{{"id":{id},"result":{result},"error":null}}"#);
            Incoming::Echo(reply.into())
        }
        (Some(method), Some(_)) => return Err(MessageError::Call(method)),
        (Some(method), None) => Incoming::Notification(Notification {
            method,
            params: text(message.params),
        }),
        (None, Some(id)) if id.get() == PROBE_ID => Incoming::ProbeReply,
        (None, Some(id)) => Incoming::Reply(Reply {
            id: id
                .get()
                .parse()
                .map_err(|_| MessageError::NoRequest(id.to_string()))?,
            result: match message.error {
                error @ Some(_) => Err(text(error)),
                None => Ok(text(message.result)),
            },
        }),
        (None, None) => return Err(MessageError::Neither),
    })
}

/// Writes a request. The parameters must be an array.
pub(crate) fn request(
    id: u64,
    method: &str,
    params: &impl Serialize,
) -> Result<Bytes, serde_json::Error> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    let request = Request { id, method, params };
    serde_json::to_vec(&request).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> String {
        match incoming(&Bytes::copy_from_slice(message.as_bytes())).unwrap() {
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
    fn messages_are_told_apart() {
        for (message, expected) in [
            (
                r#"{"id":4,"result":[{"count":1}],"error":null}"#,
                r#"reply to 4: [{"count":1}]"#,
            ),
            (r#"{"error":null,"result":null,"id":4}"#, "reply to 4: null"),
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
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"id":null}"#,
            r#"{"id":1,"method":"transact","params":[]}"#,
            r#"{"id":"1","result":[]}"#,
            "{]",
        ] {
            assert!(incoming(&text.into()).is_err(), "{text}");
        }
        let bytes = [b'{', b'"', 0xff, b'"', b':', b'1', b'}'];
        assert!(incoming(&Bytes::copy_from_slice(&bytes)).is_err());
    }

    #[test]
    fn a_long_message_is_there_once_and_a_short_one_is_not_kept_with_its_buffer() {
        for (length, is_shared) in [(10, false), (LONG_MESSAGE + 1, true)] {
            let result = "x".repeat(length);
            let message = Bytes::from(format!(r#"{{"id":1,"result":"{result}"}}"#));
            let range = message.as_ptr_range();
            let Incoming::Reply(reply) = incoming(&message).unwrap() else {
                panic!("it is a reply");
            };
            let text = reply.result.unwrap();
            assert_eq!(range.contains(&text.0.as_ptr()), is_shared);
            assert_eq!(text.read::<&str>().unwrap(), result);
        }
    }

    #[test]
    fn a_request_has_an_id_a_method_and_an_array() {
        assert_eq!(
            request(7, "transact", &("db", 1)).unwrap(),
            r#"{"id":7,"method":"transact","params":["db",1]}"#.as_bytes()
        );
    }
}

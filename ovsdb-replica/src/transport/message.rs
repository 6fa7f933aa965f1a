//! Messages of JSON-RPC 1.0 as in OVSDB (RFC 7047 section 4), and their translation for jsonrpsee, which uses version
//! 2.0.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::LONG_MESSAGE;

/// Our own `echo` request, sent after a silence.
pub(super) const PROBE: &[u8] = br#"{"method":"echo","params":[],"id":"probe"}"#;
const PROBE_ID: &str = r#""probe""#;

/// The start of jsonrpsee's requests. A server disconnects on a member that version 1.0 does not have.
const VERSION: &str = r#"{"jsonrpc":"2.0","#;

/// A message that is invalid.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not a JSON-RPC object.
    #[error("a message that is not JSON-RPC: {0}")]
    Json(#[from] serde_json::Error),
    /// jsonrpsee does something else than this client expects.
    #[error("{0}")]
    Rpc(String),
    /// It is neither a request, a reply nor a notification.
    #[error("a message with neither a method nor an id")]
    Neither,
    /// The server calls a method that a client does not have.
    #[error("the server calls the method {0:?}, which a client does not have")]
    Call(String),
    /// A reply has the id of no request.
    #[error("a reply to no request: {0}")]
    NoRequest(String),
    /// A reply has neither a result nor an error.
    #[error("a message that is not JSON-RPC: the reply to {0} has neither a result nor an error")]
    Empty(u64),
}

/// A message from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The answer to a request.
    Reply(Reply),
    /// An unsolicited message.
    Notification(Notification),
    /// The server's echo request; this is the reply.
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

/// An unsolicited message of the server.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Text,
}

/// A JSON value within a message.
#[derive(Clone, Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    /// A value of a long message shares its bytes, since there may be no memory for a copy. A short one is copied,
    /// because it would keep the whole buffer alive.
    fn of(message: &Bytes, value: &RawValue) -> Self {
        let bytes = value.get().as_bytes();
        if message.len() > LONG_MESSAGE {
            return Self(message.slice_ref(bytes));
        }
        Self(Bytes::copy_from_slice(bytes))
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Parses the value, borrowed as far as possible.
    ///
    /// # Errors
    /// The value has another type.
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

/// The members of a message (RFC 7047 section 4). `null` counts as absent, except for a result.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// Parses a message of the server.
pub(crate) fn incoming(message: BytesMut) -> Result<Incoming, MessageError> {
    let message = message.freeze();
    let members: Members<'_> = serde_json::from_slice(&message)?;
    let text = |value| Text::of(&message, value);
    match (members.method, members.id) {
        (Some(method), Some(id)) if method == "echo" => {
            let params = members.params.map_or("[]", RawValue::get);
            let answer = format!(r#"{{"id":{id},"result":{params},"error":null}}"#);
            Ok(Incoming::Echo(answer.into()))
        }
        (Some(method), Some(_)) => Err(MessageError::Call(method)),
        (Some(method), None) => {
            let params = (members.params).map_or(Text(Bytes::from_static(b"null")), text);
            Ok(Incoming::Notification(Notification { method, params }))
        }
        (None, Some(id)) if id.get() == PROBE_ID => Ok(Incoming::ProbeReply),
        (None, Some(id)) => {
            let no_request = |_| MessageError::NoRequest(id.get().to_owned());
            let id = serde_json::from_str(id.get()).map_err(no_request)?;
            let result = match (members.error, members.result) {
                (Some(error), _) => Err(text(error)),
                (None, Some(result)) => Ok(text(result)),
                (None, None) => return Err(MessageError::Empty(id)),
            };
            Ok(Incoming::Reply(Reply { id, result }))
        }
        (None, None) => Err(MessageError::Neither),
    }
}

/// The reply for jsonrpsee, without the result. The result bypasses it, so that it is in memory once.
pub(super) fn placeholder(id: u64) -> Vec<u8> {
    format!(r#"{{"id":{id},"result":null}}"#).into()
}

/// Converts a request of jsonrpsee to version 1.0.
pub(super) fn outgoing(request: &str) -> Result<Bytes, MessageError> {
    let words = "jsonrpsee writes requests in another way than this client knows";
    let members = request.strip_prefix(VERSION);
    let members = members.ok_or_else(|| MessageError::Rpc(words.to_owned()))?;
    Ok(format!("{{{members}").into())
}

#[cfg(test)]
mod tests;

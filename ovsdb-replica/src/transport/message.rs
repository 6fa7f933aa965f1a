//! Messages of JSON-RPC 1.0 as OVSDB has them (RFC 7047 section 4), and what jsonrpsee, which speaks version 2.0, is told of them.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::LONG_MESSAGE;

/// Our own `echo`, sent when nothing else comes.
pub(super) const PROBE: &[u8] = br#"{"method":"echo","params":[],"id":"probe"}"#;
const PROBE_ID: &str = r#""probe""#;

/// How jsonrpsee begins a request. A server hangs up on a member that version 1.0 does not have.
const VERSION: &str = r#"{"jsonrpc":"2.0","#;

/// A message that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not an object as JSON-RPC has it.
    #[error("a message that is not JSON-RPC: {0}")]
    Json(#[from] serde_json::Error),
    /// jsonrpsee cannot make sense of it. These are its words.
    #[error("a message that is not JSON-RPC: {0}")]
    Rpc(String),
    /// It is neither request, reply nor notification.
    #[error("a message with neither a method nor an id")]
    Neither,
    /// The server asks for something that a client does not have.
    #[error("the server calls the method {0:?}, which a client does not have")]
    Call(String),
    /// A reply bears an id that no request has.
    #[error("a reply to no request: {0}")]
    NoRequest(String),
    /// A reply has neither a result nor an error.
    #[error("a message that is not JSON-RPC: the reply to {0} has neither a result nor an error")]
    Empty(u64),
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
    /// The result, or the error; an empty text if the reply has neither.
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

/// The members of a message (RFC 7047 section 4). `null` is as good as absent, but for a result.
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

/// Reads a message of the server.
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
                (None, None) => Err(Text(Bytes::new())),
            };
            Ok(Incoming::Reply(Reply { id, result }))
        }
        (None, None) => Err(MessageError::Neither),
    }
}

/// What jsonrpsee reads in the place of a reply. The result goes past it, so that it is in memory once.
pub(super) fn placeholder(id: u64) -> Vec<u8> {
    format!(r#"{{"id":{id},"result":null}}"#).into()
}

/// A request of jsonrpsee as version 1.0 has it.
pub(super) fn outgoing(request: &str) -> Result<Bytes, MessageError> {
    let words = "jsonrpsee writes requests in another way than this client knows";
    let members = request.strip_prefix(VERSION);
    let members = members.ok_or_else(|| MessageError::Rpc(words.to_owned()))?;
    Ok(format!("{{{members}").into())
}

#[cfg(test)]
mod tests;

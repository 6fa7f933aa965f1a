//! Messages of JSON-RPC 1.0 as OVSDB has them (RFC 7047 section 4), and what jsonrpsee, which speaks version 2.0, is told of them.

mod members;

use std::{borrow::Cow, ops::Range};

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::members::{Member, Members};
use super::LONG_MESSAGE;

/// Our own `echo`, sent when nothing else comes.
pub(super) const PROBE: &[u8] = br#"{"method":"echo","params":[],"id":"probe"}"#;
const PROBE_ID: &[u8] = br#""probe""#;

/// How jsonrpsee begins a request. A server hangs up on a member that version 1.0 does not have.
const VERSION: &str = r#"{"jsonrpc":"2.0","#;

/// A key of the same length as `error` that jsonrpsee does not look at.
const IGNORED: &[u8; 5] = b"_none";

/// A message that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not an object as JSON-RPC has it.
    #[error("a message that is not JSON-RPC: it cannot be read from byte {0} on")]
    Misplaced(usize),
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
}

/// What came from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The answer to a request.
    Reply {
        /// The request's id.
        id: u64,
        /// The reply as jsonrpsee reads it.
        reply: Vec<u8>,
        /// The result of a long one, which jsonrpsee does not see.
        long: Option<Text>,
    },
    /// What was not asked for.
    Notification(Notification),
    /// The server asks whether we are there; this is the answer.
    Echo(Bytes),
    /// The answer to our own [`PROBE`].
    ProbeReply,
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
    fn of(message: &Bytes, value: &Range<usize>) -> Self {
        if message.len() > LONG_MESSAGE {
            return Self(message.slice(value.clone()));
        }
        let bytes = message.get(value.clone()).unwrap_or_default();
        Self(Bytes::copy_from_slice(bytes))
    }

    /// Nothing.
    pub(super) fn null() -> Self {
        Self(Bytes::from_static(b"null"))
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

impl From<Box<RawValue>> for Text {
    fn from(value: Box<RawValue>) -> Self {
        Self(Box::<str>::from(value).into_boxed_bytes().into())
    }
}

#[cfg(test)]
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// Reads a message of the server.
pub(crate) fn incoming(mut message: BytesMut) -> Result<Incoming, MessageError> {
    let members = Members::find(&message).map_err(|at| MessageError::Misplaced(at.0))?;
    let text = |member: &Member| message.get(member.value.clone()).unwrap_or_default();
    // `null` is as good as absent.
    let known = |member: &Option<Member>| {
        let member = member.clone();
        member.filter(|member| text(member) != b"null")
    };
    let (method, id) = (known(&members.method), known(&members.id));
    let (params, error) = (known(&members.params), known(&members.error));
    if let Some(method) = method {
        let method: String = serde_json::from_slice(text(&method))
            .map_err(|error| MessageError::Rpc(error.to_string()))?;
        return match id {
            Some(id) if method == "echo" => {
                let params = params.as_ref().map_or(&b"[]"[..], text);
                let parts = [
                    &br#"{"id":"#[..],
                    text(&id),
                    br#","result":"#,
                    params,
                    br#","error":null}"#,
                ];
                Ok(Incoming::Echo(parts.concat().into()))
            }
            Some(_) => Err(MessageError::Call(method)),
            None => {
                let message = message.freeze();
                let params = match params {
                    Some(params) => Text::of(&message, &params.value),
                    None => Text::null(),
                };
                Ok(Incoming::Notification(Notification { method, params }))
            }
        };
    }
    let id = text(&id.ok_or(MessageError::Neither)?);
    if id == PROBE_ID {
        return Ok(Incoming::ProbeReply);
    }
    let no_request = || MessageError::NoRequest(String::from_utf8_lossy(id).into_owned());
    let id: u64 = serde_json::from_slice(id).map_err(|_| no_request())?;
    let (reply, long) = match (error, members.result) {
        (Some(error), _) => (refusal(id, text(&error)), None),
        (None, Some(result)) if message.len() > LONG_MESSAGE => {
            let long = Text::of(&message.freeze(), &result.value);
            (format!(r#"{{"id":{id},"result":null}}"#).into(), Some(long))
        }
        _ => {
            let key = members.error.map(|error| error.key);
            if let Some(key) = key.and_then(|key| message.get_mut(key)) {
                key.copy_from_slice(IGNORED);
            }
            (message.into(), None)
        }
    };
    Ok(Incoming::Reply { id, reply, long })
}

/// A refusal as version 2.0 has it. The error of version 1.0 is any value; it goes along in full.
fn refusal(id: u64, error: &[u8]) -> Vec<u8> {
    let start = format!(r#"{{"id":{id},"error":{{"code":0,"message":"","data":"#);
    [start.as_bytes(), error, b"}}"].concat()
}

/// A request of jsonrpsee as version 1.0 has it. No byte is moved.
pub(super) fn outgoing(request: String) -> Result<Bytes, MessageError> {
    let start = VERSION.len().saturating_sub(1);
    if !request.starts_with(VERSION) {
        let words = "jsonrpsee writes requests in another way than this client knows";
        return Err(MessageError::Rpc(words.to_owned()));
    }
    let mut request = request.into_bytes();
    if let Some(comma) = request.get_mut(start) {
        *comma = b'{';
    }
    Ok(Bytes::from(request).slice(start..))
}

#[cfg(test)]
mod tests;

//! The bodies of the fuzz targets. The tests on a stable toolchain run them too.
//!
//! Each takes any bytes and panics if an invariant does not hold. They are compiled for tests and for `cargo fuzz`,
//! which sets `cfg(fuzzing)`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a target tells what it found"
)]

use std::collections::BTreeMap;

use bytes::BytesMut;
use serde_json::value::RawValue;
use tokio_util::codec::Decoder;

use crate::transport::{
    Framing, FramingError, Limits,
    message::{Incoming, incoming},
};

/// Limits small enough for fuzz inputs to reach.
const LIMITS: Limits = Limits {
    max_message: 256,
    max_depth: 8,
};

/// The JSON stream: the first byte gives the length of the pieces that the rest is cut into.
///
/// However the stream is cut, the same messages come out, without a loss between them. JSON objects within the limits
/// are found at the positions that a parser finds.
pub fn json_stream(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let (whole, end) = messages([stream]);
    let (in_pieces, same_end) = messages(stream.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, in_pieces, "pieces of {cut} bytes");
    // The error of a broken stream counts the bytes up to then, so it depends on the cuts.
    assert_eq!(end.is_ok(), same_end.is_ok(), "{end:?}, {same_end:?}");
    let mut rest = stream;
    for message in &whole {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(&message[..]).expect("it stands there");
        assert!(message.len() <= LIMITS.max_message);
    }
    if end.is_ok() {
        assert!(rest.trim_ascii().is_empty(), "{rest:?} is lost");
    }
    let parsed = serde_json::Deserializer::from_slice(stream).into_iter::<&RawValue>();
    let parsed = parsed.map_while(|value| value.ok().filter(|value| value.get().starts_with('{')));
    let parsed: Vec<_> = parsed.take(whole.len() + 1).collect();
    for (parsed, message) in parsed.iter().zip(&whole) {
        assert_eq!(parsed.get().as_bytes(), &message[..]);
    }
    if let Some(missing) = parsed.get(whole.len()).map(|it| it.get()) {
        let brackets = missing.matches(['{', '[']).count();
        let is_within = missing.len() <= LIMITS.max_message && brackets <= LIMITS.max_depth;
        assert!(!is_within, "{missing} is no message: {end:?}");
    }
}

/// The messages, and how the stream ends.
fn messages<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Vec<u8>>, Result<(), FramingError>) {
    let (mut framing, mut buffer, mut messages) =
        (Framing::new(LIMITS), BytesMut::new(), Vec::new());
    let mut read = |framing: &mut Framing, buffer: &mut BytesMut, is_end| loop {
        let message = if is_end {
            framing.decode_eof(buffer)
        } else {
            framing.decode(buffer)
        };
        match message {
            Ok(Some(message)) => messages.push(message.to_vec()),
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    let mut end = Ok(());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        end = read(&mut framing, &mut buffer, false);
        if end.is_err() {
            break;
        }
    }
    if end.is_ok() {
        end = read(&mut framing, &mut buffer, true);
    }
    (messages, end)
}

/// One message of JSON-RPC 1.0. A reply has the result or the error that a parser finds in the message.
pub fn json_rpc(data: &[u8]) {
    let Ok(Incoming::Reply(reply)) = incoming(data.into()) else {
        return;
    };
    // The members that a reply does not use need not be UTF-8.
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(data) else {
        return;
    };
    let member = |name| members.get(name).map(|value| value.get());
    assert_eq!(member("id").map(str::parse), Some(Ok(reply.id)));
    let error = member("error").filter(|text| *text != "null");
    match reply.result {
        Err(refusal) => assert_eq!(error, Some(&*refusal.lossy())),
        Ok(result) => {
            assert_eq!(error, None);
            assert_eq!(member("result"), Some(&*result.lossy()));
        }
    }
}

#[cfg(test)]
mod tests;

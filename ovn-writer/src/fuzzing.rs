//! What the fuzz targets do with their bytes, so that the tests on a stable toolchain do the same.
//!
//! Each takes any bytes and panics if something holds that must not. They are compiled for tests and for `cargo fuzz`, which
//! sets `cfg(fuzzing)`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a target tells what it found"
)]

use std::collections::{HashMap, HashSet};

use bytes::BytesMut;
use serde_json::value::RawValue;
use tokio_util::codec::Decoder;

use crate::{
    ovsdb::{
        Limits, Record, Replica, Tables,
        replica::TableUpdates,
        transport::{Framing, FramingError},
    },
    references::{Northbound, NorthboundChanges, NorthboundReplica, References},
};

/// Bounds that small inputs reach.
const LIMITS: Limits = Limits {
    max_message: 256,
    max_depth: 8,
};

/// The JSON stream: the first byte says into pieces of which length the others are cut.
///
/// However it is cut, the same messages come out, nothing of the stream is lost between them, and JSON objects within the bounds
/// are found to be where a parser finds them.
pub fn json_stream(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let (whole, end) = messages([stream]);
    let (in_pieces, same_end) = messages(stream.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, in_pieces, "pieces of {cut} bytes");
    // Where it breaks off is told in bytes that had come so far.
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
    for (parsed, message) in parsed.zip(&whole) {
        assert_eq!(parsed.get().as_bytes(), &message[..]);
    }
}

/// The messages that come out, and how it ends.
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

/// Updates of the tables of the northbound database that the writer follows: one JSON text a line, each applied to the same
/// replica until one does not fit. The first byte says whether they are those of `update2` and `update3`, or those of `update`.
///
/// The replica finds its rows by their keys whatever happens, and what is kept up by changes is what a new reading gives.
pub fn updates(data: &[u8]) {
    let Some((kind, lines)) = data.split_first() else {
        return;
    };
    let Ok(lines) = std::str::from_utf8(lines) else {
        return;
    };
    let (mut replica, mut references) = (NorthboundReplica::default(), References::default());
    for line in lines.lines() {
        let Ok(json) = serde_json::from_str::<&RawValue>(line) else {
            return;
        };
        let updates = if kind % 2 == 0 {
            TableUpdates::read_differences(json)
        } else {
            TableUpdates::read_rows(json)
        };
        let Ok(updates) = updates else { return };
        let mut changes = NorthboundChanges::default();
        if Northbound::apply(&mut replica, updates, &mut changes).is_err() {
            // A session ends here, and the replica is given up.
            return;
        }
        references.update(&replica, &changes);
        check_keys(&replica.0);
        check_keys(&replica.1);
        check_keys(&replica.2);
        check_keys(&replica.3);
        check_keys(&replica.4);
        check_references(&replica, &references);
    }
}

/// Every row is found by its key and by no other.
fn check_keys<R: Record>(replica: &Replica<R>) {
    let counted = replica.iter().filter(|(_, row)| row.counts()).count();
    assert_eq!(replica.counted(), counted);
    let mut keys = HashMap::<R::Key, HashSet<_>>::new();
    for (uuid, row) in replica.iter() {
        assert!(replica.get(uuid).is_some());
        if let Some(key) = row.key() {
            keys.entry(key).or_default().insert(uuid);
        }
    }
    for (key, uuids) in keys {
        let found: Vec<_> = replica.with_key(&key).map(|(uuid, _)| uuid).collect();
        assert_eq!(found.len(), uuids.len());
        assert_eq!(found.into_iter().collect::<HashSet<_>>(), uuids);
    }
}

/// What refers to each set is what a new index of the same rows says.
fn check_references(replica: &NorthboundReplica, references: &References) {
    let anew = References::of(replica);
    for (uuid, set) in replica.0.iter() {
        assert_eq!(
            references.contain_row(uuid, set),
            anew.contain_row(uuid, set),
            "{}",
            set.name()
        );
    }
}

#[cfg(test)]
mod tests;

//! Frame Streams, cut into pieces and whole.

use bytes::Bytes;

use crate::frame_stream::{Action, Error, Limits, Phase, Step, StreamReader};

/// Limits small enough for fuzz inputs to reach.
const LIMITS: Limits = Limits {
    data_frame: 64,
    control_frame: 64,
    content_type: 32,
};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

/// The reader's result for a frame.
#[derive(Debug, Eq, PartialEq)]
enum Seen {
    Data(Vec<u8>),
    Control(Action),
}

/// A stream: the first byte gives the length of the pieces that the rest is cut into.
///
/// However the stream is cut, a reader finds the same frames and ends at the same place for the same reason.
pub fn frame_stream(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let (whole, offset, end) = read([stream], false);
    let pieces = stream.chunks(usize::from(*cut).max(1));
    let (in_pieces, same_offset, same_end) = read(pieces, true);
    assert_eq!(whole, in_pieces, "pieces of {cut} bytes");
    assert_eq!((offset, reason(&end)), (same_offset, reason(&same_end)));
    assert!(offset <= stream.len() as u64);
}

fn reason(end: &Result<Phase, Error>) -> String {
    format!("{end:?}")
}

/// The frames, their total length, and the end of the stream. `short`: use the fast path for data frames.
fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    short: bool,
) -> (Vec<Seen>, u64, Result<Phase, Error>) {
    let mut reader = StreamReader::new(Bytes::from_static(CONTENT_TYPE), LIMITS);
    let (mut buffer, mut seen) = (Vec::new(), Vec::new());
    let end = pieces.into_iter().try_for_each(|piece| {
        buffer.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let rest = &buffer[at..];
            if short && let Some((payload, behind)) = reader.data(rest) {
                seen.push(Seen::Data(payload.to_vec()));
                at += rest.len() - behind.len();
                continue;
            }
            at += match reader.step(rest)? {
                Step::Incomplete { needed } => {
                    assert!((1..=LIMITS.data_frame + 4).contains(&needed), "{needed}");
                    break;
                }
                Step::Data { payload, consumed } => {
                    assert!((1..=LIMITS.data_frame).contains(&payload.len()));
                    seen.push(Seen::Data(payload.to_vec()));
                    consumed
                }
                Step::Control { action, consumed } => {
                    seen.push(Seen::Control(action));
                    consumed
                }
            };
        }
        buffer.drain(..at);
        Ok(())
    });
    let end = end.and_then(|()| reader.end(&buffer));
    (seen, reader.offset(), end.map(|()| reader.phase()))
}

//! `/capture/MILLISECONDS/BYTES`: what the streams bring from now on, as a file of Frame Streams.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream::unfold};
use proto::{
    dnstap,
    frame_stream::{Control, ControlKind, Limits},
};
use tokio::time::{Instant, timeout_at};

use crate::ingest::Tap;

/// A capture takes at most so long.
pub const LONGEST: Duration = Duration::from_secs(600);

/// What the tap gives in so much time, but no more bytes than those.
pub(super) fn body(tap: Tap, duration: Duration, bytes: usize) -> Body {
    Body::from_stream(stream(tap, duration.min(LONGEST), bytes))
}

enum Part {
    Start(Tap),
    Frames(Tap),
    End,
}

fn stream(
    tap: Tap,
    duration: Duration,
    bytes: usize,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let until = Instant::now() + duration;
    let state = (Part::Start(tap), bytes);
    unfold(state, move |(part, left)| async move {
        let (chunk, next) = match part {
            Part::Start(tap) => (control(ControlKind::Start), Part::Frames(tap)),
            Part::Frames(mut tap) => match timeout_at(until, tap.recv()).await {
                Ok(Some(frames)) if frames.len() <= left => (frames, Part::Frames(tap)),
                _ => (control(ControlKind::Stop), Part::End),
            },
            Part::End => return None,
        };
        let left = left.saturating_sub(chunk.len());
        Some((Ok(chunk), (next, left)))
    })
}

fn control(kind: ControlKind) -> Bytes {
    let control = match kind {
        ControlKind::Start => {
            Control::with_content_type(kind, Bytes::from_static(dnstap::CONTENT_TYPE))
        }
        _ => Control::new(kind),
    };
    let mut bytes = BytesMut::new();
    // These are far shorter than the limit; nothing would be a file that cannot be read.
    let _short = control.encode(&Limits::default(), &mut bytes);
    bytes.freeze()
}

//! `/capture/MILLISECONDS/BYTES`: the events from now on, as a file of Frame Streams.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream, StreamExt,
    stream::{iter, unfold},
};
use proto::{
    dnstap,
    frame_stream::{Control, ControlKind},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

/// The body of a capture: events for this time, but no more than these bytes.
pub(super) fn body(capture: mpsc::Receiver<Bytes>, duration: Duration, bytes: usize) -> Body {
    Body::from_stream(stream(capture, duration, bytes))
}

fn stream(
    capture: mpsc::Receiver<Bytes>,
    duration: Duration,
    bytes: usize,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let until = Instant::now() + duration;
    let (start, stop) = (control(ControlKind::Start), control(ControlKind::Stop));
    let room = Some((capture, bytes.saturating_sub(start.len())));
    let frames = unfold(room, move |room| async move {
        let (mut capture, left) = room?;
        let frames = timeout_at(until, capture.recv()).await.ok()??;
        let fits = fitting(&frames, left);
        let room = (fits == frames.len()).then_some((capture, left - fits));
        (fits > 0).then(|| (frames.slice(..fits), room))
    });
    let whole = iter([start]).chain(frames).chain(iter([stop]));
    whole.map(Ok)
}

/// The length of the first whole frames that fit into `left` bytes.
fn fitting(frames: &[u8], left: usize) -> usize {
    let mut rest = frames;
    let mut fits = 0;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((_, behind)) = behind.split_at_checked(length) else {
            break;
        };
        rest = behind;
        match frames.len() - rest.len() {
            end if end <= left => fits = end,
            _ => break,
        }
    }
    fits
}

fn control(kind: ControlKind) -> Bytes {
    let control = match kind {
        ControlKind::Start => {
            Control::with_content_type(kind, Bytes::from_static(dnstap::CONTENT_TYPE))
        }
        _ => Control::new(kind),
    };
    let mut bytes = BytesMut::new();
    control.encode(&mut bytes);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::CaptureSubscribers;

    #[tokio::test]
    async fn capture_of_a_burst_has_the_whole_frames_that_fit() {
        let frame = b"\0\0\0\x04abcd";
        for (reads, left, expected) in [
            (&[5][..], 25, 3),
            (&[5], 7, 0),
            (&[2, 2, 2], 40, 5),
            (&[2, 2], 1000, 4),
        ] {
            let captures = CaptureSubscribers::default();
            let capture = captures.open().unwrap().frames;
            for frames in reads {
                captures.offer(&frame.repeat(*frames), false);
            }
            drop(captures);
            let start = control(ControlKind::Start);
            let parts = stream(capture, Duration::from_secs(60), left + start.len());
            let parts: Vec<_> = parts.map(|part| part.unwrap()).collect().await;
            let all = parts.concat();
            let file = [
                &start,
                &frame.repeat(expected)[..],
                &control(ControlKind::Stop),
            ];
            assert_eq!(all, file.concat(), "{reads:?} {left}");
        }
    }
}

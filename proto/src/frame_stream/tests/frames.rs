//! Frames from bytes: the parser on good and on bad input.

use crate::frame_stream::{
    Control, ControlKind, FrameError, FrameErrorKind, FrameRef, Limits, Parsed, StreamReader, parse,
};
use bytes::{BufMut, Bytes, BytesMut};

const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";

/// A control frame as bytes: these words and texts in order, after escape and length.
fn control(payload: &[&dyn Word]) -> Vec<u8> {
    let mut body = Vec::new();
    payload.iter().for_each(|word| word.put(&mut body));
    let mut frame = vec![0; 4];
    frame.put_u32(body.len() as u32);
    frame.extend_from_slice(&body);
    frame
}

trait Word {
    fn put(&self, out: &mut Vec<u8>);
}

impl Word for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(*self);
    }
}

impl Word for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.len() as u32);
        out.extend_from_slice(self);
    }
}

fn data(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.put_u32(payload.len() as u32);
    frame.extend_from_slice(payload);
    frame
}

fn whole(buf: &[u8]) -> (FrameRef<'_>, usize) {
    match parse(buf, &Limits::default()) {
        Ok(Parsed::Frame { frame, consumed }) => (frame, consumed),
        other => panic!("no frame: {other:?}"),
    }
}

fn refused(buf: &[u8]) -> FrameError {
    parse(buf, &Limits::default()).expect_err("this must not parse")
}

#[test]
fn a_data_frame_at_the_limit_is_accepted_and_a_byte_more_is_refused() {
    let limit = Limits::default().data_frame;
    let full = data(&vec![7; limit]);
    assert_eq!(whole(&full).1, limit + 4);
    let length = (limit as u32 + 1).to_be_bytes();
    let kind = FrameErrorKind::DataTooLong {
        length: limit + 1,
        limit,
    };
    assert_eq!(refused(&length), FrameError { offset: 0, kind });
    assert_eq!(refused(&u32::MAX.to_be_bytes()).offset, 0);
}

#[test]
fn a_control_frame_over_the_limit_is_refused_by_its_length_alone() {
    let kind = FrameErrorKind::ControlTooLong {
        length: 513,
        limit: 512,
    };
    assert_eq!(
        refused(&[0, 0, 0, 0, 0, 0, 2, 1]),
        FrameError { offset: 4, kind }
    );
    let at_the_limit = [0, 0, 0, 0, 0, 0, 2, 0];
    assert_eq!(
        parse(&at_the_limit, &Limits::default()),
        Ok(Parsed::Incomplete { needed: 512 })
    );
}

#[test]
fn a_malformed_control_frame_is_refused_where_it_is_wrong() {
    let long = vec![b'x'; 257];
    let cases: [(&[&dyn Word], u64, FrameErrorKind); 7] = [
        (
            &[&4u32, &2u32, &DNSTAP],
            12,
            FrameErrorKind::UnknownField(2),
        ),
        (
            &[&4u32, &1u32],
            12,
            FrameErrorKind::FieldTruncated { needed: 4, left: 0 },
        ),
        (
            &[&4u32, &1u32, &5u32],
            12,
            FrameErrorKind::FieldTruncated { needed: 5, left: 0 },
        ),
        (
            &[&4u32, &1u32, &DNSTAP, &1u32, &u32::MAX],
            42,
            FrameErrorKind::ContentTypeTooLong {
                length: u32::MAX as usize,
                limit: 256,
            },
        ),
        (
            &[&4u32, &1u32, &long.as_slice()],
            12,
            FrameErrorKind::ContentTypeTooLong {
                length: 257,
                limit: 256,
            },
        ),
        (
            &[&2u32, &1u32, &DNSTAP, &1u32, &DNSTAP],
            8,
            FrameErrorKind::TooManyContentTypes {
                kind: ControlKind::Start,
                count: 2,
            },
        ),
        (
            &[&3u32, &1u32, &DNSTAP],
            8,
            FrameErrorKind::TooManyContentTypes {
                kind: ControlKind::Stop,
                count: 1,
            },
        ),
    ];
    for (payload, offset, kind) in cases {
        assert_eq!(refused(&control(payload)), FrameError { offset, kind });
    }
    // Three bytes where a field's type needs four.
    let kind = FrameErrorKind::FieldTruncated { needed: 4, left: 3 };
    let bytes = [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 1];
    assert_eq!(refused(&bytes), FrameError { offset: 12, kind });
}

#[test]
fn a_control_frame_is_written_as_it_is_read() {
    let ready = Control {
        kind: ControlKind::Ready,
        content_types: vec![Bytes::from_static(DNSTAP), Bytes::from_static(b"x")],
    };
    let cases: [(Control, &[&dyn Word]); 3] = [
        (ready, &[&4u32, &1u32, &DNSTAP, &1u32, &&b"x"[..]]),
        (Control::new(ControlKind::Finish), &[&5u32]),
        (Control::new(ControlKind::Unknown(6)), &[&6u32]),
    ];
    for (frame, payload) in cases {
        let mut octets = BytesMut::new();
        frame.encode(&mut octets);
        assert_eq!(octets, control(payload), "{frame:?}");
        assert_eq!(whole(&octets), (FrameRef::Control(frame), octets.len()));
    }
}

#[test]
fn a_stream_may_end_between_two_frames_only() {
    let reader = StreamReader::new(DNSTAP, Limits::default());
    let frame = data(b"abc");
    for (length, ends_well) in [(0, true), (1, false), (6, false), (7, true)] {
        let (octets, _) = frame.split_at(length);
        assert_eq!(reader.end(octets).is_ok(), ends_well, "{length} bytes");
    }
}

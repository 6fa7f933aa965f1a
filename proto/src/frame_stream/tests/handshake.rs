//! The order of frames, for both roles, without IO.

use crate::dnstap::CONTENT_TYPE;
use crate::frame_stream::{
    Action, Control, ControlKind, Error, HandshakeError, Limits, Phase, ReaderHandshake, Step,
    StreamReader, WriterHandshake, encode_data,
};
use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use ControlKind::{Accept, Finish, Ready, Start, Stop, Unknown};

fn reader() -> ReaderHandshake {
    ReaderHandshake::new(CONTENT_TYPE)
}

fn dnstap(kind: ControlKind) -> Control {
    Control::with_content_type(kind, Bytes::from_static(CONTENT_TYPE))
}

fn bare(kind: ControlKind) -> Control {
    Control::new(kind)
}

fn naming(kind: ControlKind, content_types: &[&'static [u8]]) -> Control {
    let content_types = content_types
        .iter()
        .copied()
        .map(Bytes::from_static)
        .collect();
    Control {
        kind,
        content_types,
    }
}

/// A reader that has taken these control frames.
fn reader_after(controls: &[Control]) -> ReaderHandshake {
    let mut reader = reader();
    for control in controls {
        reader.on_control(control).unwrap();
    }
    reader
}

#[test]
fn a_reader_answers_ready_with_accept_and_stop_with_finish() {
    let mut reader = reader();
    assert_eq!(
        reader.on_control(&dnstap(Ready)),
        Ok(Action::Send(dnstap(Accept)))
    );
    assert_eq!(reader.on_control(&dnstap(Start)), Ok(Action::None));
    assert_eq!(reader.on_data(), Ok(()));
    assert_eq!(
        reader.on_control(&bare(Stop)),
        Ok(Action::Finish(Some(bare(Finish))))
    );
    assert_eq!(reader.phase(), Phase::Finished);
}

#[test]
fn a_frame_without_content_type_fits_every_content_type() {
    assert_eq!(
        reader().on_control(&bare(Ready)),
        Ok(Action::Send(dnstap(Accept)))
    );
    assert_eq!(reader().on_control(&bare(Start)), Ok(Action::None));
    let mut writer = WriterHandshake::bidirectional(CONTENT_TYPE);
    writer.begin().unwrap();
    assert_eq!(
        writer.on_control(&bare(Accept)),
        Ok(Action::Send(dnstap(Start)))
    );
}

#[test]
fn a_reader_refuses_other_content_types_and_says_which() {
    let error = reader()
        .on_control(&naming(Ready, &[b"text", b"\n\x1b[31m"]))
        .unwrap_err();
    let expected = r"READY names content type text, \n\x1b[31m, not protobuf:dnstap.Dnstap";
    assert_eq!(error.to_string(), expected);
    let mut after_ready = reader_after(&[dnstap(Ready)]);
    for (reader, kind) in [(&mut reader(), Start), (&mut after_ready, Start)] {
        let error = reader
            .on_control(&naming(kind, &[b"protobuf:dnstap.dnstap"]))
            .unwrap_err();
        assert!(
            matches!(error, HandshakeError::ContentType { kind: Start, .. }),
            "{error}"
        );
        assert!(reader.on_data().is_err(), "a refused START starts nothing");
    }
}

/// A stream of these control frames, with `payload` between each two.
fn stream(controls: &[Control], payload: &[u8]) -> Vec<u8> {
    let (limits, mut bytes) = (Limits::default(), BytesMut::new());
    for control in controls {
        if !bytes.is_empty() && !payload.is_empty() {
            encode_data(payload, &limits, &mut bytes).unwrap();
        }
        control.encode(&limits, &mut bytes).unwrap();
    }
    bytes.to_vec()
}

/// Runs a stream reader over `stream` until it stops, fails, or needs more bytes.
fn run(stream: &[u8]) -> (StreamReader, Result<Vec<Vec<u8>>, Error>) {
    let mut reader = StreamReader::new(CONTENT_TYPE, Limits::default());
    let (mut position, mut payloads) = (0, Vec::new());
    loop {
        position += match reader.step(&stream[position..]) {
            Ok(Step::Incomplete { .. }) => {
                let end = reader.end(&stream[position..]);
                return (reader, end.map(|()| payloads));
            }
            Ok(Step::Data { payload, consumed }) => {
                payloads.push(payload.to_vec());
                consumed
            }
            Ok(Step::Control {
                action: Action::Finish(_),
                ..
            }) => return (reader, Ok(payloads)),
            Ok(Step::Control { consumed, .. }) => consumed,
            Err(error) => return (reader, Err(error)),
        };
    }
}

#[test]
fn a_stream_reader_says_at_which_byte_a_frame_is_out_of_turn() {
    let second_start = stream(&[dnstap(Start), dnstap(Start)], b"event");
    let (_, result) = run(&second_start);
    let text = result.unwrap_err().to_string();
    assert_eq!(text, "START in the middle of data (byte 51)");

    let mut data_first = BytesMut::new();
    encode_data(b"event", &Limits::default(), &mut data_first).unwrap();
    let text = run(&data_first).1.unwrap_err().to_string();
    assert_eq!(text, "data frame at the start of the stream (byte 0)");
}

fn any_kind() -> impl Strategy<Value = ControlKind> {
    prop::sample::select(vec![Accept, Start, Stop, Ready, Finish, Unknown(6)])
}

proptest! {
    /// The order of frames as a regular expression, next to the state machine.
    #[test]
    fn a_reader_takes_exactly_the_streams_of_the_specification(
        frames in vec(prop_oneof![2 => Just(None), 3 => any_kind().prop_map(Some)], 0..7),
    ) {
        let mut reader = reader();
        let taken = frames.iter().all(|frame| match frame {
            None => reader.on_data().is_ok(),
            Some(kind) => reader.on_control(&bare(*kind)).is_ok(),
        });
        let opened = match frames.as_slice() {
            [Some(Ready), rest @ ..] => rest,
            all => all,
        };
        let valid = match opened {
            [] => true,
            [Some(Start), rest @ ..] => {
                let body = rest.strip_suffix(&[Some(Stop)]).unwrap_or(rest);
                body.iter().all(|frame| matches!(frame, None | Some(Unknown(_))))
            }
            _ => false,
        };
        prop_assert_eq!(taken, valid);
    }

    /// Each role understands the other, whichever way the writer begins.
    #[test]
    fn writer_and_reader_agree(bidirectional: bool) {
        let mut reader = reader();
        let mut writer = if bidirectional {
            WriterHandshake::bidirectional(CONTENT_TYPE)
        } else {
            WriterHandshake::unidirectional(CONTENT_TYPE)
        };
        let mut to_reader = vec![writer.begin().unwrap()];
        let mut over = false;
        while let Some(control) = to_reader.pop() {
            match reader.on_control(&control).unwrap() {
                Action::Send(answer) | Action::Finish(Some(answer)) => {
                    if let Action::Send(next) = writer.on_control(&answer).unwrap() {
                        to_reader.push(next);
                    }
                }
                Action::None | Action::Finish(None) => {}
            }
            if writer.phase() == Phase::Streaming && to_reader.is_empty() && !over {
                prop_assert_eq!(reader.on_data(), Ok(()));
                to_reader.push(writer.stop().unwrap());
                over = true;
            }
        }
        prop_assert_eq!((reader.phase(), writer.phase()), (Phase::Finished, Phase::Finished));
    }
}

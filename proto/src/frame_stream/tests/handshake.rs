//! The order of frames, without IO.

use crate::dnstap::CONTENT_TYPE;
use crate::frame_stream::{Action, Control, ControlKind, HandshakeError, ReaderHandshake};
use bytes::Bytes;
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
fn a_frame_without_content_type_fits_every_content_type() {
    assert_eq!(
        reader().on_control(&bare(Ready)),
        Ok(Action::Send(dnstap(Accept)))
    );
    assert_eq!(reader().on_control(&bare(Start)), Ok(Action::None));
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
}

use proptest::{collection::vec, prelude::*};

use super::*;

/// The name of a question whose labels are these octets.
fn of_labels<T: AsRef<[u8]>>(labels: &[T]) -> Result<Name, Error> {
    let mut message = vec![0; HEADER];
    for label in labels {
        message.push(label.as_ref().len() as u8);
        message.extend(label.as_ref());
    }
    message.push(0);
    of_question(&message).map(Name::lower)
}

fn text(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

#[test]
fn octets_that_are_not_printable_are_escaped() {
    let name = of_labels(&[&b"a.b\\"[..], b" \x07\xff_*"]).unwrap();
    assert_eq!(name.to_string(), "a\\.b\\\\.\\032\\007\\255_*.");
    assert_eq!(format!("{name:?}"), "\"a\\.b\\\\.\\032\\007\\255_*.\"");
    assert_eq!(text(".").to_string(), ".");
}

#[test]
fn the_parent_of_a_name_lacks_its_first_label() {
    assert_eq!(text("a.bc").parent(), Some(text("bc").wire()));
    assert_eq!(text("bc").parent(), Some(&b"\0"[..]));
    assert_eq!(text(".").parent(), None);
}

#[test]
fn a_bad_name_of_a_question_is_refused_with_its_place() {
    let question = |octets: &[u8]| {
        let mut message = vec![0; HEADER];
        message.extend(octets);
        of_question(&message).map(|wire| (Name::lower(wire).to_string(), wire.len()))
    };
    assert_eq!(question(b"\x03WWW\0\xff"), Ok(("www.".to_owned(), 5)));
    assert_eq!(question(b""), Err(Error::Truncated { at: 12 }));
    assert_eq!(question(b"\x01a\x03bc"), Err(Error::Truncated { at: 18 }));
    assert_eq!(question(b"\x01a"), Err(Error::Truncated { at: 14 }));
    assert_eq!(question(b"\x40a\0"), Err(Error::LabelType { at: 12 }));
    assert_eq!(question(b"\x01a\xbfa\0"), Err(Error::LabelType { at: 14 }));
    assert_eq!(question(b"\x01a\xc0\x0c"), Err(Error::Pointer { at: 14 }));
    assert_eq!(question(b"\xc0\x00"), Err(Error::Pointer { at: 12 }));
    let labels = |last| {
        [
            [63; 64].repeat(3),
            vec![last; usize::from(last) + 1],
            vec![0],
        ]
        .concat()
    };
    assert_eq!(question(&labels(61)).unwrap().1, 255);
    assert!(matches!(
        question(&labels(62)),
        Err(Error::NameLength { .. })
    ));
}

proptest! {
    #[test]
    fn every_name_can_be_shown(labels in vec(vec(any::<u8>(), 1..=63), 0..6)) {
        let octets = labels.iter().map(|label| label.len() + 1).sum::<usize>() + 1;
        match of_labels(&labels) {
            Ok(name) => {
                prop_assert_eq!(octets, name.wire().len());
                prop_assert!(name.labels().eq(labels.iter().map(|label| label.to_ascii_lowercase())));
                let shown = name.to_string();
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
                if labels.iter().flatten().all(is_plain) && !labels.is_empty() {
                    prop_assert_eq!(Name::from_text(&shown), Some(name));
                }
                prop_assert!(shown.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            Err(error) => {
                prop_assert!(octets > 255);
                prop_assert!(matches!(error, Error::NameLength { .. }), "{}", error);
            }
        }
    }
}

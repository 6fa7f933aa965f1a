//! Streams cut and merged at every position.

use proptest::prelude::*;

use super::*;

fn split(
    limits: Limits,
    chunks: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<Vec<String>, String> {
    let (mut framing, mut buffer, mut messages) =
        (Framing::new(limits), BytesMut::new(), Vec::new());
    let text = |bytes: BytesMut| String::from_utf8_lossy(&bytes).into_owned();
    for chunk in chunks {
        buffer.extend_from_slice(chunk.as_ref());
        while let Some(bytes) = framing.decode(&mut buffer).map_err(|e| e.to_string())? {
            messages.push(text(bytes));
        }
    }
    while let Some(bytes) = framing.decode_eof(&mut buffer).map_err(|e| e.to_string())? {
        messages.push(text(bytes));
    }
    Ok(messages)
}

const TRICKY: [&str; 6] = [
    r#"{}"#,
    r#"{"a":[1,{"b":"}]"}]}"#,
    r#"{"quote":"\"","backslash":"\\","both":"\\\"}"}"#,
    r#"{"unicode":"\u007d\u005d\u0022","text":"ü€😀"}"#,
    r#"{"id":null,"method":"echo","params":[]}"#,
    r#"{"nested":[[[[]]]]}"#,
];

#[test]
fn messages_follow_one_another_without_anything_between() {
    assert_eq!(split(Limits::default(), [TRICKY.concat()]).unwrap(), TRICKY);
    assert_eq!(
        split(Limits::default(), [TRICKY.join("\n \t\r\n")]).unwrap(),
        TRICKY
    );
}

#[test]
fn it_does_not_matter_where_the_stream_is_cut() {
    let stream = TRICKY.concat();
    let bytes: Vec<[u8; 1]> = stream.bytes().map(|byte| [byte]).collect();
    assert_eq!(split(Limits::default(), bytes).unwrap(), TRICKY);
}

#[test]
fn bounds_hold_before_the_message_is_whole() {
    let limits = Limits {
        max_message: 10,
        max_depth: 3,
    };
    assert_eq!(split(limits, [r#"{"a":1234}"#]).unwrap().len(), 1);
    for cut in 1..20 {
        let error = |stream: String| split(limits, stream.as_bytes().chunks(cut)).unwrap_err();
        assert_eq!(
            error(r#"{"a":12345}"#.to_owned()),
            "a message of 11 bytes, and at most 10 are accepted"
        );
        let long = "x".repeat(150);
        assert_eq!(
            error(format!(r#"{{}} {{"a":"{long}]"}}{{}}"#)),
            "a message of 159 bytes, and at most 10 are accepted"
        );
        assert_eq!(
            error(format!(r#"{{"a":"{long}"#)),
            "the stream ended 156 bytes into a message"
        );
        let endless = error(format!(r#"{{"a":"{long}{long}"#));
        assert!(endless.starts_with("a message of more than 1"), "{endless}");
    }
    assert_eq!(split(limits, [r#"{"":[[1]]}"#]).unwrap().len(), 1);
    assert_eq!(
        split(limits, [r#"{"":[[["#]).unwrap_err(),
        "a message nested more than 3 deep"
    );
}

#[test]
fn what_is_no_object_is_refused_with_its_place() {
    assert_eq!(
        split(Limits::default(), ["{} 220 mail.example"]).unwrap_err(),
        "byte 0x32 where a JSON object must start, 3 bytes into the stream"
    );
    assert!(split(Limits::default(), ["[1]"]).is_err());
    assert!(split(Limits::default(), ["}"]).is_err());
    assert!(split(Limits::default(), [[0xff]]).is_err());
}

#[test]
fn an_end_inside_a_message_is_not_the_end_of_the_stream() {
    assert_eq!(
        split(Limits::default(), [r#"{}{"a":"#]).unwrap_err(),
        "the stream ended 5 bytes into a message"
    );
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_end_in_messages_or_an_error(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
    ) {
        let whole = chunks.concat();
        let limits = Limits { max_message: 64, max_depth: 4 };
        prop_assert_eq!(split(limits, &chunks).ok(), split(limits, [&whole]).ok());
    }

    #[test]
    fn json_comes_back_as_it_went_in(
        texts in prop::collection::vec(".*", 1..8), cut in 1_usize..64,
    ) {
        let messages: Vec<_> = texts
            .iter()
            .map(|text| serde_json::json!({"text": text, "list": [text, {"deep": text}]}).to_string())
            .collect();
        let stream = messages.concat();
        let pieces: Vec<_> = stream.as_bytes().chunks(cut).collect();
        prop_assert_eq!(split(Limits::default(), pieces).unwrap(), messages);
    }
}

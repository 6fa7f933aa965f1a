//! Streams cut and merged at every position. Random ones are in the fuzz target `json_stream`.

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

#[test]
fn decode_beyond_limits_is_refused_before_message_is_whole() {
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
fn decode_other_than_object_is_refused_with_its_place() {
    for (stream, words) in [
        (
            "{} 220 mail.example",
            "byte 0x32 where a JSON object must start, 3 bytes into the stream",
        ),
        ("[1]", "byte 0x5b"),
        ("}", "byte 0x7d"),
        (r#"{}{"a":"#, "the stream ended 5 bytes into a message"),
    ] {
        let error = split(Limits::default(), [stream]).unwrap_err();
        assert!(error.starts_with(words), "{error}");
    }
}

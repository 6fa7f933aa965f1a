//! Where one JSON text ends and the next begins: OVSDB puts nothing between them.

use bytes::{Bytes, BytesMut};
use tokio_util::codec::Decoder;

/// Bounds of one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The longest message, in bytes.
    pub max_message: usize,
    /// How deep arrays and objects may nest.
    pub max_depth: usize,
}

impl Default for Limits {
    /// 512 MiB, as the reply that holds a whole database is one message, and 32 levels; OVSDB itself needs about 12.
    fn default() -> Self {
        Self {
            max_message: 512 << 20,
            max_depth: 32,
        }
    }
}

/// Why the stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum FramingError {
    /// A message starts with something else than an object.
    #[error("byte {byte:#04x} where a JSON object must start, {offset} bytes into the stream")]
    NoObject {
        /// What stands there.
        byte: u8,
        /// Bytes before it.
        offset: u64,
    },
    /// More bytes than [`Limits::max_message`], and no end.
    #[error("a message of more than {0} bytes")]
    TooLong(usize),
    /// Deeper than [`Limits::max_depth`].
    #[error("a message nested more than {0} deep")]
    TooDeep(usize),
    /// The stream ended inside a message.
    #[error("the stream ended {0} bytes into a message")]
    Truncated(usize),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Cuts a stream of JSON objects into single ones. It looks at quotes, escapes and brackets alone, each byte once, however
/// the stream is cut; whether the text is JSON is for the parser to say.
#[derive(Debug, Default)]
pub struct Framing {
    limits: Limits,
    /// Bytes of the message at hand that were looked at.
    scanned: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Bytes of the messages before it.
    offset: u64,
}

impl Framing {
    /// Reads messages within these bounds.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The length of the message at the front of `buffer`, once its end is there.
    fn end(&mut self, buffer: &[u8]) -> Result<Option<usize>, FramingError> {
        // Locals, so that the loop runs in registers: it sees every byte of the database.
        let (mut depth, mut in_string, mut escaped) = (self.depth, self.in_string, self.escaped);
        let mut end = None;
        for (index, byte) in buffer.iter().enumerate().skip(self.scanned) {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => {
                    depth += 1;
                    if depth > self.limits.max_depth {
                        return Err(FramingError::TooDeep(self.limits.max_depth));
                    }
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        end = Some(index + 1);
                        break;
                    }
                }
                _ => {}
            }
        }
        (self.depth, self.in_string, self.escaped) = (depth, in_string, escaped);
        self.scanned = end.unwrap_or(buffer.len());
        Ok(end)
    }
}

impl Decoder for Framing {
    type Item = Bytes;
    type Error = FramingError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FramingError> {
        if self.scanned == 0 {
            let space = source
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            drop(source.split_to(space));
            self.offset += space as u64;
            match source.first() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(&byte) => {
                    return Err(FramingError::NoObject {
                        byte,
                        offset: self.offset,
                    });
                }
            }
        }
        let end = self.end(source)?;
        if end.unwrap_or(source.len()) > self.limits.max_message {
            return Err(FramingError::TooLong(self.limits.max_message));
        }
        Ok(end.map(|end| {
            self.scanned = 0;
            self.offset += end as u64;
            source.split_to(end).freeze()
        }))
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FramingError> {
        match self.decode(source)? {
            None if !source.is_empty() => Err(FramingError::Truncated(source.len())),
            message => Ok(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(
        limits: Limits,
        chunks: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<String>, String> {
        let (mut framing, mut buffer, mut messages) =
            (Framing::new(limits), BytesMut::new(), Vec::new());
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
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
        assert_eq!(
            split(limits, [r#"{"a":12345}"#]).unwrap_err(),
            "a message of more than 10 bytes"
        );
        assert_eq!(
            split(limits, [r#"{"a":"123456"#]).unwrap_err(),
            "a message of more than 10 bytes"
        );
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
}

//! Splits a stream of JSON texts: OVSDB puts no separator between them.

use bytes::BytesMut;
use memchr::memchr2;
use tokio_util::codec::Decoder;

/// A message that is too long is read to its end if it is at most this many times the limit.
const MEASURED: usize = 16;

/// The limits of one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The longest message, in bytes.
    pub max_message: usize,
    /// The maximum nesting of arrays and objects.
    pub max_depth: usize,
}

impl Default for Limits {
    /// 512 MiB, since the reply with a whole database is one message, and 32 levels; OVSDB itself needs about 12.
    fn default() -> Self {
        Self {
            max_message: 512 << 20,
            max_depth: 32,
        }
    }
}

/// Why the stream cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum FramingError {
    /// A message does not start with an object.
    #[error("byte {byte:#04x} where a JSON object must start, {offset} bytes into the stream")]
    NoObject {
        /// The byte.
        byte: u8,
        /// Bytes before it.
        offset: u64,
    },
    /// More bytes than [`Limits::max_message`].
    #[error("a message of {}{length} bytes, and at most {limit} are accepted", if *.is_whole { "" } else { "more than " })]
    TooLong {
        /// Its bytes so far.
        length: usize,
        /// Whether that is the whole message.
        is_whole: bool,
        /// The limit.
        limit: usize,
    },
    /// Nested deeper than [`Limits::max_depth`].
    #[error("a message nested more than {0} deep")]
    TooDeep(usize),
    /// The stream ended inside a message.
    #[error("the stream ended {0} bytes into a message")]
    Truncated(usize),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Splits a stream of JSON objects into single ones. It only checks quotes, escapes and brackets, each byte once,
/// however the stream is cut. The parser checks the JSON itself.
#[derive(Debug, Default)]
pub struct Framing {
    limits: Limits,
    /// Scanned bytes of the current message.
    scanned: usize,
    /// Discarded bytes of it before those, since it is too long.
    discarded: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Bytes of the earlier messages.
    offset: u64,
}

impl Framing {
    /// A framing with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The length of the message at the front of `buffer`, once it is complete.
    fn end(&mut self, buffer: &[u8]) -> Result<Option<usize>, FramingError> {
        // Local variables keep the loop in registers: it sees every byte of the database.
        let (mut depth, mut in_string, mut escaped) = (self.depth, self.in_string, self.escaped);
        let (mut rest, mut end) = (buffer.get(self.scanned..).unwrap_or_default(), None);
        while end.is_none() {
            let next = if !in_string {
                rest.iter()
                    .position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))
            } else if escaped {
                (!rest.is_empty()).then_some(0)
            } else {
                memchr2(b'"', b'\\', rest)
            };
            let found = next.and_then(|at| rest.split_at_checked(at)?.1.split_first());
            let Some((byte, behind)) = found else {
                break;
            };
            rest = behind;
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' => {
                    depth += 1;
                    if depth > self.limits.max_depth {
                        return Err(FramingError::TooDeep(self.limits.max_depth));
                    }
                }
                _ => {
                    depth = depth.saturating_sub(1);
                    end = (depth == 0).then(|| buffer.len().saturating_sub(rest.len()));
                }
            }
        }
        (self.depth, self.in_string, self.escaped) = (depth, in_string, escaped);
        self.scanned = end.unwrap_or(buffer.len());
        Ok(end)
    }
}

impl Decoder for Framing {
    type Item = BytesMut;
    type Error = FramingError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<BytesMut>, FramingError> {
        if self.scanned == 0 && self.discarded == 0 {
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
        let limit = self.limits.max_message;
        let length = self.discarded.saturating_add(end.unwrap_or(source.len()));
        if length > limit {
            let is_whole = end.is_some();
            if is_whole || length > limit.saturating_mul(MEASURED) {
                return Err(FramingError::TooLong {
                    length,
                    is_whole,
                    limit,
                });
            }
            // The rest is read without being stored, to report the length that the limit would have to allow.
            self.discarded = length;
            self.scanned = 0;
            *source = BytesMut::new();
        }
        Ok(end.map(|end| {
            self.scanned = 0;
            self.offset += end as u64;
            source.split_to(end)
        }))
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<BytesMut>, FramingError> {
        match self.decode(source)? {
            None if !source.is_empty() || self.discarded > 0 => {
                let length = self.discarded.saturating_add(source.len());
                Err(FramingError::Truncated(length))
            }
            message => Ok(message),
        }
    }
}

#[cfg(test)]
mod tests;

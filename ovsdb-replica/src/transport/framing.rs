//! Where one JSON text ends and the next begins: OVSDB puts nothing between them.

use bytes::BytesMut;
use memchr::memchr2;
use tokio_util::codec::Decoder;

/// A message that is too long is read to its end if it has at most this many times the bytes that it may have.
const MEASURED: usize = 16;

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
    /// More bytes than [`Limits::max_message`].
    #[error("a message of {}{length} bytes, and at most {limit} are accepted (the limit is max-message)", if *.is_whole { "" } else { "more than " })]
    TooLong {
        /// Its bytes.
        length: usize,
        /// Whether these are all.
        is_whole: bool,
        /// How many it may have.
        limit: usize,
    },
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
    /// Bytes of it that were thrown away before those, as it is too long.
    discarded: usize,
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
            // It is read on, without being kept, for its length: that is what must be known to make room for it.
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

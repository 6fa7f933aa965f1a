//! Domain names in wire form.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::wire::{Error, HEADER, MAX_LABEL, MAX_NAME};

/// A domain name in lower case, as uncompressed wire form: labels with their length octets, the root's zero last.
///
/// It lives on the stack (257 octets) and is compared and hashed by [`wire`](Self::wire).
#[derive(Clone)]
pub struct Name {
    /// One octet more than the longest name, so that the padded length of every name fits.
    bytes: [u8; MAX_NAME + 1],
    length: u8,
}

/// Why a text is not a domain name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// The text is empty; the root is `.`.
    #[error("the name is empty")]
    Empty,
    /// Two dots in a row, or one in front.
    #[error("the name has an empty label at character {0}")]
    EmptyLabel(usize),
    /// A label has more than 63 octets, the last of them here.
    #[error("the label has more than 63 octets at character {0}")]
    LabelLength(usize),
    /// The name has more than 255 octets in wire form.
    #[error("the name has more than 255 octets")]
    Length,
    /// A backslash is followed by neither a character nor three digits up to 255.
    #[error(
        "the escape at character {0} is neither `\\` and a character nor `\\` and three digits up to 255"
    )]
    Escape(usize),
    /// A character is not ASCII; its octets can be written as `\DDD`.
    #[error("character {0} is not ASCII")]
    NotAscii(usize),
}

impl Name {
    /// The name in wire form: labels with their length octets, the root's zero last; 1 to 255 octets.
    pub fn wire(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// The wire form without the first label; `None` for the root.
    pub fn parent(&self) -> Option<&[u8]> {
        let wire = self.wire();
        match wire.first() {
            None | Some(0) => None,
            Some(length) => wire.get(1 + usize::from(*length)..),
        }
    }

    /// The labels without the root.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.wire();
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first()?;
            let (label, tail) = tail.split_at_checked(usize::from(*length))?;
            rest = tail;
            (!label.is_empty()).then_some(label)
        })
    }

    /// Reads presentation form (RFC 1035 section 5.1): labels with dots between them, with or without the last dot;
    /// `\X` is the character X without a meaning of its own, `\DDD` the octet with that decimal value. Letters become
    /// lower case.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong and, counted from 0, where.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        if text == "." {
            return Ok(Self::root());
        }
        let mut name = Self::root();
        let mut label = Label::default();
        let mut characters = text.bytes().enumerate();
        while let Some((at, byte)) = characters.next() {
            match byte {
                b'.' => name.push(&mut label, at)?,
                b'\\' => label.push(unescape(text, at, &mut characters)?, at)?,
                0x80.. => return Err(NameError::NotAscii(at)),
                _ => label.push(byte, at)?,
            }
        }
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if label.length > 0 {
            name.push(&mut label, text.len())?;
        }
        Ok(name)
    }

    fn root() -> Self {
        Self {
            bytes: [0; MAX_NAME + 1],
            length: 1,
        }
    }

    /// Appends `label` in front of the root, and empties it.
    fn push(&mut self, label: &mut Label, at: usize) -> Result<(), NameError> {
        if label.length == 0 {
            return Err(NameError::EmptyLabel(at));
        }
        let start = usize::from(self.length) - 1;
        let end = start + 1 + label.length;
        if end >= MAX_NAME {
            return Err(NameError::Length);
        }
        let length = [label.length as u8];
        for (slot, byte) in self
            .bytes
            .iter_mut()
            .skip(start)
            .zip(length.iter().chain(&label.bytes).take(1 + label.length))
        {
            *slot = byte.to_ascii_lowercase();
        }
        self.length = (end + 1) as u8;
        label.length = 0;
        Ok(())
    }

    /// The name with these octets, as [`wire`](Self::wire) gives them; nothing if they are none, or more than one.
    pub fn from_wire(octets: &[u8]) -> Option<Self> {
        let mut message = [0; HEADER + MAX_NAME];
        message
            .get_mut(HEADER..HEADER + octets.len())?
            .copy_from_slice(octets);
        let name = of_question(&message).ok()?;
        (name.len() == octets.len()).then(|| Self::lower(name))
    }

    /// A name of dots and labels of 1 to 63 octets without escapes, in lower case, with its trailing dot and at most 254
    /// octets in all, as a [`DnsName`](crate::api::DnsName) is.
    pub(crate) fn from_plain(text: &str) -> Self {
        let mut name = Self::root();
        for (slot, byte) in name
            .bytes
            .iter_mut()
            .zip([b'.'].into_iter().chain(text.bytes()))
        {
            *slot = byte;
        }
        // Every dot stands where the length of the label behind it belongs.
        let mut length = 0;
        for slot in name.bytes.iter_mut().take(text.len() + 1).rev() {
            if *slot == b'.' {
                *slot = length;
                length = 0;
            } else {
                length += 1;
            }
        }
        name.length = (text.len() + 1) as u8;
        name
    }

    /// The octets of a right name in wire form, in lower case.
    #[inline]
    pub(super) fn lower(wire: &[u8]) -> Self {
        let mut bytes = [0; MAX_NAME + 1];
        if let Some(bytes) = bytes.get_mut(..wire.len()) {
            bytes.copy_from_slice(wire);
        }
        // Length octets are below the letters, so they stay. Whole blocks keep the loop free of a tail.
        if let Some(bytes) = bytes.get_mut(..wire.len().next_multiple_of(32)) {
            bytes.make_ascii_lowercase();
        }
        Self {
            bytes,
            length: wire.len() as u8,
        }
    }
}

/// The name of the question, which stands right behind the header: so it has no earlier name to point to.
#[inline]
pub(super) fn of_question(message: &[u8]) -> Result<&[u8], Error> {
    let rest = message.get(HEADER..).unwrap_or_default();
    let mut length = 0;
    loop {
        let at = HEADER + length;
        match rest.get(length) {
            None => return Err(Error::Truncated { at }),
            Some(0) => break,
            Some(octet @ 1..=63) => length += 1 + usize::from(*octet),
            Some(64..=191) => return Err(Error::LabelType { at }),
            Some(192..) => return Err(Error::Pointer { at }),
        }
        if length >= MAX_NAME {
            return Err(Error::NameLength { at });
        }
    }
    Ok(rest.get(..=length).unwrap_or_default())
}

/// A label under construction.
struct Label {
    bytes: [u8; MAX_LABEL],
    length: usize,
}

impl Default for Label {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_LABEL],
            length: 0,
        }
    }
}

impl Label {
    fn push(&mut self, byte: u8, at: usize) -> Result<(), NameError> {
        let slot = self
            .bytes
            .get_mut(self.length)
            .ok_or(NameError::LabelLength(at))?;
        *slot = byte;
        self.length += 1;
        Ok(())
    }
}

/// The octet that the escape at `at` means; `rest` stands behind its backslash and is moved behind the escape.
fn unescape(
    text: &str,
    at: usize,
    rest: &mut impl Iterator<Item = (usize, u8)>,
) -> Result<u8, NameError> {
    let (next, byte) = rest.next().ok_or(NameError::Escape(at))?;
    if !byte.is_ascii_digit() {
        return if byte.is_ascii() {
            Ok(byte)
        } else {
            Err(NameError::NotAscii(next))
        };
    }
    let digits = text
        .get(next..next + 3)
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        .ok_or(NameError::Escape(at))?;
    rest.nth(1);
    digits.parse().map_err(|_| NameError::Escape(at))
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.wire() == other.wire()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wire().hash(state);
    }
}

impl fmt::Display for Name {
    /// Presentation form with the trailing dot. Octets outside the printable ASCII characters are written as `\DDD`, dots
    /// and backslashes inside a label with a backslash (RFC 4343 section 2.1).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        if self.length <= 1 {
            return f.write_char('.');
        }
        for label in self.labels() {
            for byte in label {
                match byte {
                    b'.' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
                    0x21..=0x7e => f.write_char(char::from(*byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_char('.')?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests;

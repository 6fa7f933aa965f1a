//! Domain names in wire form.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::wire::{Error, HEADER, MAX_NAME};

/// A domain name in lower case, as uncompressed wire form: labels with their length octets, the root's zero last.
///
/// It lives on the stack (257 octets) and is compared and hashed by [`wire`](Self::wire).
#[derive(Clone)]
pub struct Name {
    /// One octet more than the longest name, so that the padded length of every name fits.
    bytes: [u8; MAX_NAME + 1],
    length: u8,
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

    /// Parses labels, each followed by a dot, in any case and without escapes. The last dot is optional. `None` if the
    /// text is no name.
    pub fn from_text(text: &str) -> Option<Self> {
        let labels = if text == "." { "" } else { text };
        Self::from_wire(&wire_of(labels))
    }

    /// The name with these octets, as [`wire`](Self::wire) gives them. `None` if they are not exactly one name.
    pub fn from_wire(octets: &[u8]) -> Option<Self> {
        let mut message = [0; HEADER + MAX_NAME];
        message
            .get_mut(HEADER..HEADER + octets.len())?
            .copy_from_slice(octets);
        let name = of_question(&message).ok()?;
        (name.len() == octets.len()).then(|| Self::lower(name))
    }

    /// Converts a name in the form of a [`DnsName`](crate::api::DnsName). It is in lower case without escapes, ends
    /// with a dot, and has labels of 1 to 63 octets. Its length is at most 254 octets.
    pub(crate) fn from_plain(text: &str) -> Self {
        Self::lower(&wire_of(text))
    }

    /// Lower-cases the octets of a valid name in wire form.
    #[inline]
    pub(super) fn lower(wire: &[u8]) -> Self {
        let mut bytes = [0; MAX_NAME + 1];
        if let Some(bytes) = bytes.get_mut(..wire.len()) {
            bytes.copy_from_slice(wire);
        }
        // Length octets are smaller than any letter, so lower-casing leaves them alone. Whole blocks keep the loop free
        // of a tail.
        if let Some(bytes) = bytes.get_mut(..wire.len().next_multiple_of(32)) {
            bytes.make_ascii_lowercase();
        }
        Self {
            bytes,
            length: wire.len() as u8,
        }
    }
}

/// The wire form of dot-terminated labels. A label over 63 octets gets a length octet that no valid label has.
fn wire_of(text: &str) -> Vec<u8> {
    let mut wire = Vec::with_capacity(text.len() + 2);
    for label in text.split_terminator('.') {
        wire.push(label.len().min(255) as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// The name of the question. It directly follows the header, so it cannot contain a compression pointer.
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

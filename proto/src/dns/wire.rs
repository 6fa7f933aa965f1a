//! The octets of a message: integers, and names with compression pointers (RFC 1035 section 4.1.4).

/// How many compression pointers one name may follow: as many as it can have labels.
pub const MAX_HOPS: u8 = 127;

/// The number of labels and compression pointers that the names of one answer section may take in total. A name equal
/// to the one before does not count.
///
/// The longest allowed chain of CNAME records needs half of them. Without a limit, 64 KiB of pointers to one long name
/// would take 700,000 steps.
pub const MAX_STEPS: u16 = 16_384;

/// The octets of a header; no name starts before its end.
pub(super) const HEADER: usize = 12;

/// Octets of the longest label (RFC 1035 section 2.3.4).
pub(super) const MAX_LABEL: usize = 63;

/// Octets of the longest name in wire form, the root's zero included (RFC 1035 section 2.3.4).
pub(super) const MAX_NAME: usize = 255;

/// Why a message cannot be read. `at` counts octets from the start of the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The header, a count or a length announces more octets than the message has.
    #[error("the message ends before what is announced at octet {at}")]
    Truncated {
        /// Where the missing field starts.
        at: usize,
    },
    /// RFC 9619: a standard query has exactly one question.
    #[error("the message has {0} questions instead of one")]
    Questions(u16),
    /// The two high bits of a length octet are 01 or 10 (RFC 6891 section 5, RFC 1035 section 4.1.4).
    #[error("the label at octet {at} has a reserved type")]
    LabelType {
        /// The length octet.
        at: usize,
    },
    /// A compression pointer does not lead to an earlier name.
    #[error("the compression pointer at octet {at} does not point backwards to a name")]
    Pointer {
        /// The pointer's first octet.
        at: usize,
    },
    /// A name follows more than [`MAX_HOPS`] compression pointers.
    #[error("the name has too many compression pointers, the last at octet {at}")]
    Hops {
        /// The first pointer too many.
        at: usize,
    },
    /// The names of the answer section take more than [`MAX_STEPS`] steps.
    #[error("the names take too many steps to read, the last at octet {at}")]
    Steps {
        /// The label or pointer that is one too many.
        at: usize,
    },
    /// A name has over 255 octets.
    #[error("the name has more than 255 octets with the label at octet {at}")]
    NameLength {
        /// The length octet of the first label too many.
        at: usize,
    },
    /// RDLENGTH is not what the record's type needs.
    #[error("the data of the record at octet {at} has the wrong length")]
    DataLength {
        /// Where the record's data starts.
        at: usize,
    },
    /// The answer section has more than [`MAX_ALIASES`](super::MAX_ALIASES) CNAME records.
    #[error("the answer has too many CNAME records, the last at octet {at}")]
    Aliases {
        /// Where the data of the first one too many starts.
        at: usize,
    },
    /// The CNAME records lead back to a name of their chain.
    #[error("the CNAME records form a loop")]
    Loop,
}

/// `N` octets at `at`.
pub(super) fn octets<const N: usize>(message: &[u8], at: usize) -> Result<[u8; N], Error> {
    message
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(Error::Truncated { at })
}

/// The position of a name in a message. The name was read to its end, so it is known to be valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameAt {
    /// The position of its first label, after leading pointers.
    at: usize,
    /// Octets of its uncompressed wire form, 1 to 255.
    length: u8,
    /// Whether that form stands at `at` uncompressed.
    flat: bool,
}

impl NameAt {
    /// The question's name of this many octets; it is never compressed.
    pub(super) fn question(length: usize) -> Self {
        Self {
            at: HEADER,
            length: length as u8,
            flat: true,
        }
    }

    /// The uncompressed wire form, if it stands in the message.
    fn flat(self, message: &[u8]) -> Option<&[u8]> {
        let length = usize::from(self.length);
        message.get(self.at..self.at + length).filter(|_| self.flat)
    }

    /// Whether the names are the same octets of the message.
    #[inline]
    pub(super) fn is_there(self, other: Self) -> bool {
        self.at == other.at
    }

    /// Whether the names are the same in any case (RFC 4343).
    #[inline]
    pub(super) fn is(self, other: Self, message: &[u8]) -> Result<bool, Error> {
        if self.is_there(other) {
            Ok(true)
        } else if self.length != other.length {
            Ok(false)
        } else {
            self.has_the_labels_of(other, message)
        }
    }

    fn has_the_labels_of(self, other: Self, message: &[u8]) -> Result<bool, Error> {
        // Length octets are smaller than any letter, so they compare unchanged.
        if let (Some(a), Some(b)) = (self.flat(message), other.flat(message)) {
            return Ok(a.eq_ignore_ascii_case(b));
        }
        let mut labels = (
            Labels::new(message, self.at),
            Labels::new(message, other.at),
        );
        loop {
            match (labels.0.next()?, labels.1.next()?) {
                (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => {}
                (a, b) => return Ok(a == b),
            }
        }
    }
}

/// Reads the names of a message one after the other. A name that repeats the previous one takes a fast path.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    message: &'a [u8],
    last: NameAt,
    /// How many steps may still be taken.
    steps: u16,
}

impl<'a> Names<'a> {
    /// Starts after `question`.
    pub(super) fn new(message: &'a [u8], question: NameAt) -> Self {
        Self {
            message,
            last: question,
            steps: MAX_STEPS,
        }
    }

    /// The name at `at`, and the position after it. Names must be read in the order of the message.
    #[inline]
    pub(super) fn read(&mut self, at: usize) -> Result<(NameAt, usize), Error> {
        let rest = self.message.get(at..).unwrap_or_default();
        // A position beyond the reach of a pointer gives a sum that no pointer can equal.
        let pointer = 0xc000 + self.last.at;
        if let Some(octets) = rest.first_chunk()
            && usize::from(u16::from_be_bytes(*octets)) == pointer
        {
            return Ok((self.last, at + 2));
        }
        if let Some(flat) = self.last.flat(self.message)
            && rest.starts_with(flat)
        {
            return Ok((self.last, at + flat.len()));
        }
        self.walk(at)
    }

    #[inline(never)]
    fn walk(&mut self, at: usize) -> Result<(NameAt, usize), Error> {
        let mut labels = Labels {
            steps: self.steps,
            ..Labels::new(self.message, at)
        };
        let mut start = None;
        let mut hops = 0;
        let mut next = labels.next();
        while let Ok(Some(label)) = next {
            if start.is_none() {
                start = Some(labels.at - label.len() - 1);
                hops = labels.hops;
            }
            next = labels.next();
        }
        // The steps to a fault count, too.
        self.steps = labels.steps;
        next?;
        self.last = NameAt {
            at: start.unwrap_or(labels.at),
            length: labels.length as u8,
            flat: start.is_none() || hops == labels.hops,
        };
        Ok((self.last, labels.end.unwrap_or(labels.at + 1)))
    }
}

/// The labels of a name in a message, compression pointers followed.
///
/// A pointer must lead to an octet before the run of labels that it ends, and after the header. So every name ends.
pub(super) struct Labels<'a> {
    message: &'a [u8],
    /// The next length octet.
    at: usize,
    /// Where the current run of labels without a pointer starts.
    run: usize,
    /// After the first pointer: where the name ends in its record.
    end: Option<usize>,
    /// Octets of the name so far, including the root's.
    length: usize,
    hops: u8,
    /// How many more labels and pointers may be read.
    steps: u16,
}

impl<'a> Labels<'a> {
    pub(super) fn new(message: &'a [u8], at: usize) -> Self {
        Self {
            message,
            at,
            run: at,
            end: None,
            length: 1,
            hops: 0,
            steps: MAX_STEPS,
        }
    }

    /// The next label; `None` for the root.
    pub(super) fn next(&mut self) -> Result<Option<&'a [u8]>, Error> {
        loop {
            let at = self.at;
            let [octet] = octets(self.message, at)?;
            let length = usize::from(octet);
            if length == 0 {
                return Ok(None);
            }
            self.steps = self.steps.checked_sub(1).ok_or(Error::Steps { at })?;
            if length <= MAX_LABEL {
                let start = at + 1;
                let label = self
                    .message
                    .get(start..start + length)
                    .ok_or(Error::Truncated { at })?;
                self.length += 1 + length;
                if self.length > MAX_NAME {
                    return Err(Error::NameLength { at });
                }
                self.at = start + length;
                return Ok(Some(label));
            } else if length < 0xc0 {
                return Err(Error::LabelType { at });
            }
            self.follow(at)?;
        }
    }

    fn follow(&mut self, at: usize) -> Result<(), Error> {
        let target = usize::from(u16::from_be_bytes(octets(self.message, at)?) & 0x3fff);
        if target >= self.run || target < HEADER {
            return Err(Error::Pointer { at });
        }
        if self.hops == MAX_HOPS {
            return Err(Error::Hops { at });
        }
        self.hops += 1;
        self.end.get_or_insert(at + 2);
        self.at = target;
        self.run = target;
        Ok(())
    }
}

//! The read buffer of a connection, of a fixed size.

/// Bytes that were read and not consumed yet, in a buffer that does not grow.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    /// An empty buffer. Pages that are never written take no memory.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    /// The unconsumed bytes.
    pub(super) fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The free space for the next read. Moves the unconsumed bytes to the front if less than half
    /// of the buffer is free behind them.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 && self.bytes.len() - self.end < self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds bytes that were read into [`ReadBuffer::room`].
    pub(super) fn add(&mut self, read: usize) {
        self.end = (self.end + read).min(self.bytes.len());
    }

    /// Removes bytes at the front.
    pub(super) fn consume(&mut self, used: usize) {
        self.start = (self.start + used).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

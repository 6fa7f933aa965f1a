//! Drops answers that a stream has just repeated.
//!
//! Clients query a name in use again and again. Each repeat would pass through the queue and wake
//! the controller, only to move expiry times by milliseconds. That costs far more than decoding the
//! answer.

use proto::dns;
use runtime::clock::Timestamp;

use crate::matching::index::NameIndex;

/// Equal answers within one span of milliseconds count once. The span is of two clocks: the time of
/// receipt, and the DNS server's. After a pause the collector receives answers of several seconds
/// at once. A DNS server may send no time, or always the same one.
const SPAN: i64 = 100;

/// The slots of the table of answers.
const ANSWERS: usize = 1 << 10;

/// Hashes of the latest answers of one stream to clients. A hash collision evicts an answer, whose
/// next repeat then passes again. The [default](Self::default) has no slots.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Box<[u64]>);

/// Identifies an answer within its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHash(u64);

impl AnswerHash {
    /// Hashes a message, the time of the answer and the time of receipt. The hash differs between
    /// versions of the index: an answer from before a name was wanted is no repeat.
    pub(crate) fn new(
        message: &[u8],
        answered_at: Option<Timestamp>,
        at: Timestamp,
        names: &NameIndex,
    ) -> Self {
        let said = dns::without_identifier(message);
        let span = |at: Timestamp| at.as_millis().div_euclid(SPAN);
        // 0 marks an empty slot.
        Self(names.hash((said, answered_at.map(span), span(at))) | 1)
    }
}

impl Repeats {
    /// A table for one stream: 8 KiB.
    pub(crate) fn of_stream() -> Self {
        Self(vec![0; ANSWERS].into())
    }

    pub(crate) fn has(&self, mark: AnswerHash) -> bool {
        self.0.get(self.place(mark)) == Some(&mark.0)
    }

    pub(crate) fn keep(&mut self, mark: AnswerHash) {
        let place = self.place(mark);
        if let Some(kept) = self.0.get_mut(place) {
            *kept = mark.0;
        }
    }

    /// The upper bits, scaled to the number of slots.
    fn place(&self, AnswerHash(mark): AnswerHash) -> usize {
        ((u128::from(mark) * self.0.len() as u128) >> u64::BITS) as usize
    }
}

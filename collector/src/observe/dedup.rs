//! What a stream has just said already.
//!
//! A name in use is asked for again and again. Each time, its addresses would go through the queue and wake the controller of the
//! statuses: far more work than reading the answer, for times that are later by some milliseconds.

use proto::dns;
use runtime::clock::Timestamp;

use crate::observe::names::NameIndex;

/// Of two equal answers in one span of so many milliseconds the first is enough, by the clock of the DNS server and by that of the
/// receipt. After a pause the answers of some seconds are read at once. A server may show no time, or always the same.
const SPAN: i64 = 100;

/// Answers of one span that are told apart.
const ANSWERS: usize = 1 << 10;

/// The answers that one stream gave to clients last, by their hashes. One may push another out, and then comes through again.
/// The [default](Self::default) holds none.
#[derive(Debug, Default)]
pub(super) struct Repeats(Box<[u64]>);

/// What an answer is found by within its span.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerHash(u64);

impl AnswerHash {
    /// Of a message, when it was given and when it was received. Each index has marks of its own: what was said before a name was
    /// wanted, or wanted again, does not count.
    pub(super) fn new(
        message: &[u8],
        answered_at: Option<Timestamp>,
        at: Timestamp,
        names: &NameIndex,
    ) -> Self {
        let said = dns::without_identifier(message);
        let span = |at: Timestamp| at.as_millis().div_euclid(SPAN);
        // Never 0, which is no answer.
        Self(names.hash((said, answered_at.map(span), span(at))) | 1)
    }
}

impl Repeats {
    /// Room for the answers of a stream: 8 KiB.
    pub(super) fn of_stream() -> Self {
        Self(vec![0; ANSWERS].into())
    }

    /// Whether it was kept.
    pub(super) fn has(&self, mark: AnswerHash) -> bool {
        self.0.get(self.place(mark)) == Some(&mark.0)
    }

    /// Keeps it.
    pub(super) fn keep(&mut self, mark: AnswerHash) {
        let place = self.place(mark);
        if let Some(kept) = self.0.get_mut(place) {
            *kept = mark.0;
        }
    }

    /// By the upper bits, scaled to what there is.
    fn place(&self, AnswerHash(mark): AnswerHash) -> usize {
        ((u128::from(mark) * self.0.len() as u128) >> u64::BITS) as usize
    }
}

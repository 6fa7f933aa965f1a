//! Counts the differences between the next status and the stored one.

use runtime::clock::Timestamp;

/// Added, removed and renewed addresses, as far as they were counted.
#[derive(Default)]
pub(super) struct UpdateCount {
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) flipped: bool,
    pub(super) nearest: Option<Timestamp>,
}

impl UpdateCount {
    /// Marks that a name's condition flipped.
    pub(super) fn flip_if(&mut self, flipped: bool) {
        self.flipped |= flipped;
    }
}

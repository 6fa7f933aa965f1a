//! How a status differs from the stored one.

use runtime::clock::Timestamp;

/// What is added, removed and told anew, as far as it was counted.
#[derive(Default)]
pub(super) struct UpdateCount {
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) flipped: bool,
    pub(super) nearest: Option<Timestamp>,
}

impl UpdateCount {
    /// A name became degraded, or is no longer, if it is `flipped`.
    pub(super) fn flip_if(&mut self, flipped: bool) {
        self.flipped |= flipped;
    }
}

//! What was seen of a fact, or why it was not.

/// Why something could not be seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unseen(pub(crate) String);

/// The start of the words about an API server that fails. Every request can have them.
const FAILS: &str = "the API server fails: ";

impl Unseen {
    /// The API server gives no answer in time, or one about a failure of its own.
    pub(crate) fn failure(words: &str) -> Self {
        Self(format!("{FAILS}{words}"))
    }

    /// Whether these words are about such a failure.
    pub(crate) fn is_failure(words: &str) -> bool {
        words.contains(FAILS)
    }
}

pub(crate) type Seen<T> = Result<T, Unseen>;

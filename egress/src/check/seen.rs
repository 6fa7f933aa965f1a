//! What was seen of a fact, or why it was not.

/// Why something could not be seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unseen(pub(crate) String);

pub(crate) type Seen<T> = Result<T, Unseen>;

//! The forwarder that holds answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The forwarder of a collector with `--hold-listen`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldFacts {
    /// Whether it listens: only the leader's forwarder does.
    pub listening: bool,
    /// Whether it passes all answers at once, since an administrator said so.
    pub passing: bool,
    /// The queries since the start.
    pub queries: u64,
    /// Those to which no upstream replied.
    pub unanswered: u64,
    /// The answers that waited until the status had their addresses, since the start.
    pub held: u64,
    /// Those that were sent before, since it took too long or too many waited.
    pub early: u64,
}

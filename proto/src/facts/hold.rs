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
}

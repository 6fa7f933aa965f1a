//! What clients were answered, as a collector says it for a window of time: a line of JSON for each answer.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A line of a collector's `GET /answers/MILLISECONDS`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AnswerLine {
    /// An answer with addresses.
    Answer(ClientAnswer),
    /// The last line. Without it the window was broken off.
    #[serde(rename_all = "camelCase")]
    End {
        /// The bytes of events that came faster than the window was read: names may be missing.
        lost_bytes: u64,
    },
}

/// An answer with addresses to a client.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClientAnswer {
    /// The name of the question in lower case, without the trailing dot, as in zone files (RFC 4343).
    pub name: String,
    /// The client, if the event has its address.
    pub client: Option<IpAddr>,
    /// The addresses that may stand in sets.
    pub addresses: Vec<IpAddr>,
    /// The guard that refuses the other addresses, by its name in metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
}

//! The forwarder that holds answers.

use std::{fmt, net::SocketAddr, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The forwarder of a collector with `--hold-listen`.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldFacts {
    /// The address of `--hold-listen`, for UDP and TCP.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The servers that it asks.
    #[schemars(with = "Vec<String>")]
    pub upstreams: Vec<SocketAddr>,
    /// Whether it listens: only the leader's forwarder does.
    pub listening: bool,
    /// What it does with answers that have new addresses.
    pub mode: HoldMode,
}

/// What the forwarder does with answers that have new addresses.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldMode {
    /// It holds each until the status has the addresses.
    Hold,
    /// It passes all at once.
    Pass,
}

impl fmt::Display for HoldMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hold => "hold",
            Self::Pass => "pass",
        })
    }
}

impl FromStr for HoldMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "hold" => Ok(Self::Hold),
            "pass" => Ok(Self::Pass),
            _ => Err("give `hold` or `pass`"),
        }
    }
}

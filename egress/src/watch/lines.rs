//! The lines of `/watch`, of both programs.

use std::net::IpAddr;

use k8s_openapi::jiff;
use runtime::clock::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// A time in RFC 3339 form.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub(super) struct Time(pub(super) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.parse::<jiff::Timestamp>().map_err(D::Error::custom)?;
        Ok(Self(Timestamp::from_millis(parsed.as_millisecond())))
    }
}

impl Time {
    /// The milliseconds since another time, which may be of another clock.
    pub(super) fn millis_since(self, earlier: Self) -> i64 {
        self.0.as_millis().saturating_sub(earlier.0.as_millis())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Line {
    State {
        lost: u64,
        /// Why an ovn-writer writes nothing, if so.
        #[serde(default)]
        idle: Option<String>,
    },
    Answer(AnswerLine),
    Status(StatusLine),
    Set(SetLine),
    Realized(RealizedLine),
    /// Of a newer program.
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerLine {
    pub(super) rule: String,
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) more_addresses: u64,
    pub(super) known_addresses: Vec<IpAddr>,
    pub(super) answered_at: Option<Time>,
    pub(super) read_at: Time,
    pub(super) seen_where: String,
    pub(super) namespaces: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusLine {
    pub(super) rule: String,
    pub(super) addresses: Vec<NameAddress>,
    pub(super) more_addresses: u64,
    pub(super) object: String,
    pub(super) resource_version: String,
    pub(super) acknowledged_at: Time,
    pub(super) namespaces: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct NameAddress {
    pub(super) name: String,
    pub(super) address: IpAddr,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetLine {
    pub(super) name: String,
    pub(super) set: String,
    pub(super) added: Vec<IpAddr>,
    pub(super) more_added: u64,
    pub(super) removed: Vec<String>,
    pub(super) seen_at: Option<Time>,
    pub(super) acknowledged_at: Time,
    /// The number of the `realized` line that follows, if one does.
    #[serde(default)]
    pub(super) follow_up: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RealizedLine {
    pub(super) follow_up: u64,
    #[serde(flatten)]
    pub(super) realized: Realized,
}

/// When OVN followed a change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Realized {
    /// `confirmed`, `assumed`, `late` or `unknown`.
    pub(super) proof: String,
    /// Why it is not confirmed.
    pub(super) reason: Option<String>,
    pub(super) rules_at: Option<Time>,
    pub(super) cached_flows_at: Option<Time>,
    /// Why that is not known.
    pub(super) cached_flows_unknown: Option<String>,
}

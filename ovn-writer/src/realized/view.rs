//! The state of it, for administrators.

use std::time::{Duration, Instant};

use runtime::inspect::text::span;
use serde::Serialize;

use super::{CachedFlows, Committed, Proof, Realized, RealizedOptions};

/// When changes are realized.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RealizedView {
    /// The version of ovn-northd; `None` if it is not known.
    pub northd: Option<String>,
    /// Whether the southbound database is asked.
    pub asks_southbound: bool,
    /// Whether `ovs-vswitchd` is asked.
    pub asks_vswitchd: bool,
    /// The chassis that do not follow.
    pub silent_chassis: Vec<String>,
    /// The last change for which this was found out.
    pub last: Option<LastRealized>,
}

/// A change, and when it was realized.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRealized {
    /// When it was committed.
    #[serde(skip)]
    pub at: Instant,
    /// For how many seconds it has been committed.
    pub seconds_ago: u64,
    /// `confirmed`, `assumed`, `late` or `unknown`.
    pub proof: &'static str,
    /// Why it is not confirmed.
    pub reason: Option<&'static str>,
    /// The milliseconds from the acknowledgement until the rules were in.
    pub rules_ms: Option<f64>,
    /// The milliseconds from the acknowledgement until cached flows were gone.
    pub cached_flows_ms: Option<f64>,
    /// Why that is not known.
    pub cached_flows_unknown: Option<String>,
}

impl RealizedView {
    pub(super) fn new(options: &RealizedOptions) -> Self {
        Self {
            asks_southbound: options.southbound.is_some(),
            asks_vswitchd: options.vswitchd.is_some(),
            ..Self::default()
        }
    }

    pub(super) fn record(&mut self, committed: &Committed, realized: &Realized) {
        let after = |at: tokio::time::Instant| {
            let took = at.into_std().saturating_duration_since(committed.at);
            took.as_secs_f64() * 1e3
        };
        let is_known = matches!(realized.proof, Proof::Confirmed | Proof::Assumed(_));
        let (cached_flows_ms, cached_flows_unknown) = match &realized.cached_flows {
            CachedFlows::Gone(at) => (Some(after(*at)), None),
            CachedFlows::Unknown(reason) => (None, Some(reason.clone())),
        };
        self.last = Some(LastRealized {
            at: committed.at,
            seconds_ago: 0,
            proof: realized.proof.as_str(),
            reason: realized.proof.reason(),
            rules_ms: is_known.then(|| after(realized.rules_at)),
            cached_flows_ms,
            cached_flows_unknown,
        });
    }

    /// The state at this time.
    #[must_use]
    pub fn at(mut self, now: Instant) -> Self {
        if let Some(last) = &mut self.last {
            last.seconds_ago = now.saturating_duration_since(last.at).as_secs();
        }
        self
    }

    /// One sentence; `None` before the first change.
    pub fn words(&self) -> Option<String> {
        let last = self.last.as_ref()?;
        let ago = span(Duration::from_secs(last.seconds_ago));
        let reason = last.reason.map(|reason| format!(" ({reason})"));
        let mut words = match last.rules_ms {
            Some(rules) => format!(
                "the last change that was followed, {ago} ago, was in the rules of the switch {rules:.1} ms after the database had it: {}{}",
                last.proof,
                reason.unwrap_or_default()
            ),
            None => format!(
                "it is unknown when the last change that was followed, {ago} ago, was in the rules of the switch{}",
                reason.unwrap_or_default()
            ),
        };
        if let Some(flows) = last.cached_flows_ms {
            words += &format!("; cached flows were gone after {flows:.1} ms");
        }
        Some(words)
    }
}

impl Proof {
    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Assumed(_) => "assumed",
            Self::Late(_) => "late",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why it is no more than that.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Confirmed => None,
            Self::Assumed(reason) | Self::Late(reason) | Self::Unknown(reason) => Some(reason),
        }
    }
}

//! The condition `Degraded` of a name.

use std::borrow::Cow;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use proto::timestamp::Timestamp;
use proto::{
    address::GUARDS,
    api::{ANSWER_REFUSED, DEGRADED},
    dns,
};

use super::name::ResolutionState;
use crate::failure::Failure;

/// The reason while a name is left out because its namespaces exceed their limits.
pub(super) const LIMIT_EXCEEDED: &str = "LimitExceeded";

/// A guard, by its place in [`GUARDS`]: a process has a hundred thousand names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Guard(u8);

impl Guard {
    fn all() -> impl Iterator<Item = Self> {
        (0..).zip(GUARDS).map(|(place, _)| Self(place))
    }

    /// The guard with this reason.
    pub(super) fn of(reason: &str) -> Option<Self> {
        Self::all().find(|guard| guard.as_str() == reason)
    }

    fn as_str(self) -> &'static str {
        GUARDS.get(usize::from(self.0)).copied().unwrap_or_default()
    }
}

/// The conditions of a name in a status.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConditionWords {
    Nothing,
    /// A collector's condition for this resolution, with its transition time.
    Ours(ResolutionState, Timestamp),
    /// Conditions of another writer.
    Foreign(Box<[Condition]>),
}

/// The verdicts that can be recognized by their reason.
const VERDICTS: [ResolutionState; 13] = [
    ResolutionState::Resolved,
    ResolutionState::NoAddress,
    ResolutionState::Expired,
    ResolutionState::Refused,
    ResolutionState::LimitExceeded,
    ResolutionState::Failing(Failure::NXDOMAIN),
    ResolutionState::Failing(Failure::Rcode(dns::RCODE_SERVFAIL as u16)),
    ResolutionState::Failing(Failure::Rcode(dns::RCODE_REFUSED as u16)),
    ResolutionState::Failing(Failure::Rcode(dns::RCODE_FORMERR as u16)),
    ResolutionState::Failing(Failure::Rcode(dns::RCODE_NOTIMP as u16)),
    ResolutionState::Failing(Failure::Timeout),
    ResolutionState::Failing(Failure::BadReply),
    ResolutionState::Failing(Failure::NoServer),
];

impl ConditionWords {
    pub(super) fn new(conditions: &[Condition]) -> Self {
        let [only] = conditions else {
            return match conditions {
                [] => Self::Nothing,
                _ => Self::Foreign(conditions.into()),
            };
        };
        let since = Timestamp::from_millis(only.last_transition_time.0.as_millisecond());
        let is_it = |resolution: &ResolutionState| {
            resolution
                .words()
                .is_some_and(|(_, reason)| reason == only.reason)
                && condition(*resolution, since).as_ref() == Some(only)
        };
        let refused = Guard::all().map(ResolutionState::AnswerRefused);
        match VERDICTS.into_iter().chain(refused).find(is_it) {
            Some(resolution) => Self::Ours(resolution, since),
            None => Self::Foreign(conditions.into()),
        }
    }

    /// The conditions in a status.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Ours(resolution, since) => Vec::from_iter(condition(*resolution, *since)),
            Self::Foreign(conditions) => conditions.to_vec(),
        }
    }

    /// The condition for the resolution now. The transition time moves only when the status flips.
    pub(super) fn next(&self, resolution: ResolutionState, now: Timestamp) -> Self {
        let Some((status, reason)) = resolution.words() else {
            // The name is no longer left out, or its answers no longer refused, and no address is known.
            return match self {
                Self::Ours(
                    ResolutionState::LimitExceeded | ResolutionState::AnswerRefused(_),
                    _,
                ) => Self::Nothing,
                condition_words => condition_words.clone(),
            };
        };
        let condition_words = self.degraded();
        let alone = !matches!(self, Self::Foreign(conditions) if conditions.len() > 1);
        match condition_words {
            Some((was, why, _)) if alone && was == status && why == reason => self.clone(),
            Some((was, _, since)) if was == status => Self::Ours(resolution, since),
            _ => Self::Ours(resolution, now.floor_second()),
        }
    }

    /// The condition for the resolution now of a name that only a wildcard found. A success has none:
    /// no reader needs it, and an object has up to a thousand such names.
    pub(super) fn next_found(&self, resolution: ResolutionState, now: Timestamp) -> Self {
        match self.next(resolution, now) {
            Self::Ours(ResolutionState::Resolved, _) => Self::Nothing,
            next => next,
        }
    }

    /// Whether the status or the reason differs.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let words = |condition_words: &Self| {
            condition_words
                .degraded()
                .map(|(status, reason, _)| (status.to_owned(), reason.into_owned()))
        };
        self != other && words(self) != words(other)
    }

    /// The resolution, if a collector wrote the condition.
    pub(super) fn resolution(&self) -> ResolutionState {
        match self {
            Self::Ours(resolution, _) => *resolution,
            Self::Nothing | Self::Foreign(_) => ResolutionState::Unknown,
        }
    }

    /// The reason of a `Degraded` condition that is true.
    pub(super) fn reason(&self) -> Option<Cow<'static, str>> {
        let (status, reason, _) = self.degraded()?;
        (status == "True" && !reason.is_empty()).then_some(reason)
    }

    /// The status, reason and transition time of `Degraded`.
    fn degraded(&self) -> Option<(&str, Cow<'static, str>, Timestamp)> {
        match self {
            Self::Nothing => None,
            Self::Ours(resolution, since) => {
                let (status, reason) = resolution.words()?;
                Some((status, reason, *since))
            }
            Self::Foreign(conditions) => {
                let found = conditions.iter().find(|found| found.type_ == DEGRADED)?;
                let since = found.last_transition_time.0.as_millisecond();
                let reason = found.reason.clone().into();
                Some((&found.status, reason, Timestamp::from_millis(since)))
            }
        }
    }
}

impl ResolutionState {
    /// The status and the reason of the condition, if the resolution has one.
    fn words(self) -> Option<(&'static str, Cow<'static, str>)> {
        match self {
            Self::Unknown => None,
            Self::Resolved => Some(("False", "NOERROR".into())),
            Self::Failing(failure) => Some(("True", failure.reason())),
            Self::NoAddress => Some(("True", "NoAddress".into())),
            Self::Expired => Some(("True", "Expired".into())),
            Self::Refused => Some(("True", "AddressesRefused".into())),
            Self::AnswerRefused(_) => Some(("True", ANSWER_REFUSED.into())),
            Self::LimitExceeded => Some(("True", LIMIT_EXCEEDED.into())),
        }
    }

    fn message(self) -> Cow<'static, str> {
        match self {
            Self::Unknown => "".into(),
            Self::Resolved => "the last look-up succeeded".into(),
            Self::Failing(failure) => failure.to_string().into(),
            Self::NoAddress => "the DNS servers answered NOERROR without an address".into(),
            Self::Expired => "the addresses expired and no answer renewed them".into(),
            Self::Refused => "the guards refuse the addresses that the name had".into(),
            Self::AnswerRefused(guard) => format!("answer refused ({})", guard.as_str()).into(),
            Self::LimitExceeded => {
                "the namespaces that use the name have too many addresses or names: it is left out"
                    .into()
            }
        }
    }
}

fn condition(resolution: ResolutionState, since: Timestamp) -> Option<Condition> {
    let (status, reason) = resolution.words()?;
    Some(Condition {
        last_transition_time: time(since),
        message: resolution.message().into_owned(),
        observed_generation: None,
        reason: reason.into_owned(),
        status: status.to_owned(),
        type_: DEGRADED.to_owned(),
    })
}

/// The API's time type, which stores whole seconds.
pub(super) fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default())
}

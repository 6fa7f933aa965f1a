//! Names whose look-ups fail, for the status page.

use proto::api::DnsName;
use serde::Serialize;

use super::{NameState, name::ResolutionState};
use crate::failure::Failure;

/// A name whose look-ups fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    pub name: DnsName,
    /// Failed look-ups since the last answer.
    pub failures: i32,
    /// The last failure, as the condition `Degraded` has it; unknown if it was before this process
    /// started.
    #[serde(rename = "degraded")]
    pub failure: Option<Failure>,
}

pub fn failing_names(state: &NameState) -> impl Iterator<Item = FailureView> {
    let names = state.list.names.iter();
    let names = names.map(|name| (&name.dns_name, name.resolution, name.failures));
    let own = state.without_addresses.as_deref();
    let own = own.map(|known| (&state.list.rule_name, known.resolution, known.failures));
    names.chain(own).filter_map(|(name, resolution, failures)| {
        let failure = match resolution {
            ResolutionState::Failing(failure) => Some(failure),
            _ => None,
        };
        (failure.is_some() || failures > 0).then(|| FailureView {
            name: name.clone(),
            failures,
            failure,
        })
    })
}

//! Names whose look-ups fail, for the status page.

use proto::api::DnsName;

use super::{NameState, name::Verdict};
use crate::failure::Failure;

/// A name whose last look-up failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failing<'a> {
    pub dns_name: &'a DnsName,
    /// Failed look-ups since the last answer.
    pub failures: i32,
    /// The last failure; `None` if it was before this process started.
    pub failure: Option<Failure>,
}

pub fn failing_names(state: &NameState) -> impl Iterator<Item = Failing<'_>> {
    let names = state.list.names.iter();
    let names = names.map(|name| (&name.dns_name, name.verdict, name.failures));
    let own = state.without_addresses.as_deref();
    let own = own.map(|known| (&state.list.spec, known.verdict, known.failures));
    names
        .chain(own)
        .filter_map(|(dns_name, verdict, failures)| {
            let failure = match verdict {
                Verdict::Failing(failure) => Some(failure),
                _ => None,
            };
            (failure.is_some() || failures > 0).then_some(Failing {
                dns_name,
                failures,
                failure,
            })
        })
}

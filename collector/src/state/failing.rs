//! Which names cannot be looked up, for people.

use proto::api::DnsName;

use super::{Memory, name::Verdict};
use crate::resolve::Failure;

/// A name whose last look-up failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failing<'a> {
    /// The name.
    pub dns_name: &'a DnsName,
    /// How many look-ups failed since the last answer.
    pub failures: i32,
    /// How the last one failed; not known if that was before this process's life.
    pub failure: Option<Failure>,
}

impl Memory {
    /// The names whose last look-up failed.
    pub fn failing(&self) -> impl Iterator<Item = Failing<'_>> {
        self.names.iter().filter_map(|name| {
            let failure = match &name.verdict {
                Verdict::Failing(failure) => Some(*failure),
                Verdict::Unknown | Verdict::Resolved => None,
            };
            (failure.is_some() || name.failures > 0).then_some(Failing {
                dns_name: &name.dns_name,
                failures: name.failures,
                failure,
            })
        })
    }
}

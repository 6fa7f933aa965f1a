//! The configuration of the publisher.

use names::{Limits, NamespaceCaps, Namespaces};

use super::{NewAddresses, guards::Guards, policy::ObjectPolicy};
use crate::{listen::PeerIds, matching::answer_cache::AnswerCache, rules::notices::Notices};

/// The configuration of the publisher. The default has the limits that the flags have by default,
/// and shares nothing.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How objects are created and written.
    pub objects: ObjectPolicy,
    /// The limits of names and addresses.
    pub limits: Limits,
    /// The guards as far as they are known at the start.
    pub guards: Guards,
    /// What each namespace may have.
    pub namespace_caps: NamespaceCaps,
    /// The state shared with other tasks.
    pub shared: Shared,
}

/// State shared with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that no rule wanted when they came.
    pub remembered: AnswerCache,
    /// The numbers of namespaces.
    pub namespaces: Namespaces,
    /// Reports names that are left out to the authors of rules.
    pub notices: Notices,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
    /// The peers by their numbers.
    pub peers: PeerIds,
}

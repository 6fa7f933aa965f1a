//! Identifies a set of a name.

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family};

/// A set of the name, whether it exists or not.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SetOf {
    /// `k8s.ovn.org/owner-controller`.
    pub controller: Box<str>,
    pub family: Family,
}

impl SetOf {
    /// The set of the default network.
    pub fn default_network(family: Family) -> Self {
        Self {
            controller: DEFAULT_NETWORK_CONTROLLER.into(),
            family,
        }
    }
}

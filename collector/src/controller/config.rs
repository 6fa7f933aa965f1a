//! The configuration of the controller.

use crate::{
    guards::Guards,
    objects::{NamespaceCaps, ObjectPolicy, Shared},
    state::Limits,
};

/// The configuration of the controller. The default has the limits that the flags have by default,
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

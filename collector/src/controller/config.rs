//! What the controller goes by.

use crate::{
    guards::Guards,
    objects::{NamespaceLimits, ObjectPolicy, Shared},
    state::Limits,
};

/// How the controller does its work. By default it has the limits that the flags have by default, and shares nothing.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How objects are made and written.
    pub objects: ObjectPolicy,
    /// The bounds of what is believed.
    pub limits: Limits,
    /// Which addresses may stand in a status, as far as that is known at the start.
    pub guards: Guards,
    /// What a namespace may have.
    pub namespace_limits: NamespaceLimits,
    /// What it shares with others.
    pub shared: Shared,
}

//! How many new names clients may add.

use clap::Args;

use crate::new_names::NewNameLimits;

/// The flags of how many new names clients may add.
#[derive(Args, Clone, Debug)]
pub struct StreamLimitArgs {
    /// New names under wildcards.
    #[command(flatten)]
    pub new_names: NewNameLimits,
}

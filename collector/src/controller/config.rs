//! What the owner goes by, and what it shares with other tasks.

use std::time::Duration;

use clap::ValueEnum;

use super::{NamespaceLimits, Rates};
use crate::{
    clients::Clients, event_history::EventHistory, guards::Guards, namespaces::NamespaceQuotas,
    new_names::KnownNames, notices::Notices, observe::answer_cache::AnswerCache, state::Limits,
};

/// Whether the collector makes and deletes objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ManageObjects {
    /// The collector makes an object for a name that nobody else made one for.
    Auto,
    /// The collector makes an object for every name.
    Always,
    /// The collector makes none.
    Never,
}

/// How the owner does its work.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespace of the DNSNameResolver objects.
    pub namespace: String,
    /// Who makes and deletes objects.
    pub manage_objects: ManageObjects,
    /// How long a name in use is left to others to make an object for, where objects are managed automatically.
    pub create_after: Duration,
    /// The bounds of what is believed.
    pub limits: Limits,
    /// Which addresses may stand in a status, as far as that is known at the start.
    pub guards: Guards,
    /// Nothing but times is written for an object more often than this (`--status-times-interval`).
    pub times_interval: Duration,
    /// How much of that is written in all.
    pub rates: Rates,
    /// What a namespace may have.
    pub namespace_limits: NamespaceLimits,
    /// What it shares with others.
    pub shared: Shared,
}

impl Default for Config {
    /// It makes an object for every name at once, with the limits that the flags have by default, and shares nothing.
    fn default() -> Self {
        Self {
            namespace: "ovn-kubernetes".to_owned(),
            manage_objects: ManageObjects::Always,
            create_after: Duration::ZERO,
            limits: Limits::default(),
            guards: Guards::default(),
            times_interval: Duration::from_secs(600),
            rates: Rates::default(),
            namespace_limits: NamespaceLimits::default(),
            shared: Shared::default(),
        }
    }
}

/// What the owner shares with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that nobody wanted when they came.
    pub remembered: AnswerCache,
    /// What happened to addresses, for people.
    pub recent: EventHistory,
    /// Whose pods clients are.
    pub clients: Clients,
    /// The names under wildcards, for the readers.
    pub known: KnownNames,
    /// How much namespaces may have that have annotations.
    pub quotas: NamespaceQuotas,
    /// Who tells the authors of rules what is left out.
    pub notices: Notices,
}

//! How rules use a name.

use std::sync::Arc;

use crate::{namespaces::Namespace, rules::SourceSet, state::Limits};

/// How the rules of all sources use a name. Many names share one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct NameUse {
    /// The sources with a rule for it.
    pub(crate) by: SourceSet,
    /// An Allow rule uses it.
    pub(crate) allowed: bool,
    /// A Deny rule uses it.
    pub(crate) denied: bool,
    /// The limits for this name: the flags, and the annotations of its EgressFirewalls.
    pub(crate) limits: Arc<Limits>,
    /// The namespaces with a rule for it, sorted.
    pub(crate) with_rule: Arc<[Namespace]>,
}

impl NameUse {
    /// No rule uses the name.
    pub(super) fn none(limits: Arc<Limits>) -> Self {
        Self {
            by: SourceSet::default(),
            allowed: false,
            denied: false,
            limits,
            with_rule: Arc::default(),
        }
    }

    /// The same without rules: the addresses stay for as long as before.
    pub(super) fn without_rules(&self) -> Self {
        Self {
            by: SourceSet::default(),
            allowed: false,
            denied: false,
            ..self.clone()
        }
    }
}

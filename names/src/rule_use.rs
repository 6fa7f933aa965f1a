//! How rules use a name.

use std::sync::Arc;

use crate::{Limits, Namespace};

/// How the rules of all sources use a name. Many names share one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RuleUse {
    /// An Allow rule uses it.
    pub allowed: bool,
    /// A Deny rule uses it.
    pub denied: bool,
    /// The limits for this name: the flags, and the annotations of its objects.
    pub limits: Arc<Limits>,
    /// The namespaces with a rule for it, sorted.
    pub namespaces: Arc<[Namespace]>,
}

impl RuleUse {
    /// No rule uses the name.
    pub fn none(limits: Arc<Limits>) -> Self {
        Self {
            allowed: false,
            denied: false,
            limits,
            namespaces: Arc::default(),
        }
    }
}

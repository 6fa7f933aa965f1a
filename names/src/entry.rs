//! One name of a rule, with the names under it.

use std::{sync::Arc, time::Duration};

use proto::{api::DnsName, timestamp::Timestamp};

use crate::{Limits, NameList, NameState, Namespace, NoAddress, UpdateEffect};

/// How long a name stays after its last rule went, since the rule may come back: an edit that replaces objects, a
/// CustomResourceDefinition that is deleted, or a store during a restore.
pub const UNUSED_FOR: Duration = Duration::from_secs(600);

/// A name of a rule or of an object. A process has a hundred thousand of these, so rare fields are boxed and common
/// values shared.
#[derive(Debug)]
pub struct Entry {
    pub(crate) state: NameState,
    pub(crate) rule_use: Arc<RuleUse>,
    pub(crate) is_used: bool,
    /// Since when no rule has it, if one had.
    pub(crate) unused_since: Option<Timestamp>,
    /// Its namespaces have too many names, so no address of it is kept.
    pub(crate) is_left_out: bool,
    /// It did not get the addresses that pods use already.
    pub(crate) is_new: bool,
    /// Why the last look-up or answer gave no address. Most names have one, so it is apart.
    pub(crate) no_address: Option<Box<NoAddress>>,
    /// `None` for most names.
    pub(crate) evicted: Option<Box<Evictions>>,
    /// Its time in the table's [`Wakes`](crate::wakes::Wakes).
    pub(crate) wake: Option<Timestamp>,
}

/// Evicted addresses and names since the start of the process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Evictions {
    /// Addresses of names that stayed, or of an object that was too large.
    pub addresses: u64,
    /// Names under a wildcard, with all their addresses.
    pub names: u64,
}

impl Evictions {
    pub(crate) fn add(&mut self, effect: &UpdateEffect) {
        self.addresses += effect.evicted_addresses as u64;
        self.names += effect.evicted_names as u64;
    }
}

impl Entry {
    pub(crate) fn new(name: DnsName, unused: &Arc<RuleUse>) -> Self {
        Self {
            state: NameState::new(name),
            rule_use: Arc::clone(unused),
            is_used: false,
            unused_since: None,
            is_left_out: false,
            is_new: true,
            no_address: None,
            evicted: None,
            wake: None,
        }
    }

    /// The names that it matches, with their addresses.
    pub fn list(&self) -> &NameList {
        self.state.list()
    }

    /// Its names, and what was evicted from them.
    pub fn state(&self) -> &NameState {
        &self.state
    }

    /// How rules use it. Of a name that no rule uses now, the limits and namespaces are those of the last rules.
    pub fn rule_use(&self) -> &RuleUse {
        &self.rule_use
    }

    /// The limits of its addresses.
    pub fn limits(&self) -> &Limits {
        &self.rule_use.limits
    }

    /// Whether a rule uses the name.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether it is left out, because its namespaces have too many names.
    pub fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Why the name itself has no address, if it has none and the reason is known.
    pub fn no_address(&self) -> Option<NoAddress> {
        let is_empty = self.list().addresses() == 0;
        let left_out = self.is_left_out.then_some(NoAddress::LimitExceeded);
        left_out
            .or(self.no_address.as_deref().copied())
            .filter(|_| is_empty)
    }

    /// What was evicted since the start of the process.
    pub fn evicted(&self) -> Evictions {
        self.evicted.as_deref().copied().unwrap_or_default()
    }

    /// Until when it is kept although it has no rule and no object.
    pub fn kept_until(&self) -> Timestamp {
        self.unused_since
            .map_or(Timestamp::default(), |since| since + UNUSED_FOR)
    }

    /// The addresses that count towards the cap of a namespace: those of a regular name.
    pub(crate) fn counted_addresses(&self) -> usize {
        if self.list().rule_name().is_wildcard() {
            0
        } else {
            self.list().addresses()
        }
    }
}

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

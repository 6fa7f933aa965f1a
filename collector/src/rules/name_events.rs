//! Tells the authors of rules what happens to the names in them, once in a while and not of every name.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::kube_events::{Reporter, Severity};
use tokio::time::Instant;

/// What was told is forgotten this often. The reporter does not repeat what it said a shorter time ago.
pub(super) const AGAIN: Duration = Duration::from_secs(600);

/// So many names are told of within [`AGAIN`], of each kind in each namespace: what a tenant can cause of one kind silences neither
/// another kind nor another tenant.
pub(super) const MAX_TOLD: usize = 64;

/// Of the EgressFirewalls that use a name so many are told at once: the others are told the next time.
const MAX_ABOUT: usize = 8;

/// Tells the authors.
#[derive(Debug)]
pub(super) struct NameEvents {
    reporter: Reporter,
    /// The names by kind and namespace.
    told: HashMap<(&'static str, Option<String>), HashSet<DnsName>>,
    forget_at: Instant,
}

impl NameEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            told: HashMap::new(),
            forget_at: Instant::now() + AGAIN,
        }
    }

    /// Tells some of the EgressFirewalls `about` that use the name, unless the same was told a while ago. `reason` is that of the Event,
    /// and `kind` tells apart what has the same.
    pub(super) fn tell<'a>(
        &mut self,
        name: &DnsName,
        (reason, kind): (&'static str, &'static str),
        about: impl Iterator<Item = &'a ObjectReference>,
        note: impl Fn() -> String,
        now: Instant,
    ) {
        if self.forget_at <= now {
            self.told.clear();
            self.forget_at = now + AGAIN;
        }
        let mut left = MAX_ABOUT;
        for about in about {
            let told = self.told.entry((kind, about.namespace.clone()));
            let told = told.or_default();
            if told.len() >= MAX_TOLD || told.contains(name) {
                continue;
            }
            let warned = self
                .reporter
                .report(about.clone(), Severity::Warning, reason, note());
            if warned {
                told.insert(name.clone());
            }
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

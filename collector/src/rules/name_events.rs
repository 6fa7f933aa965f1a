//! Reports to the authors of rules about the names in them, with a limit on names and frequency.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::kube_events::{Reporter, Severity};
use tokio::time::Instant;

/// How often the names that were reported are forgotten.
pub(super) const AGAIN: Duration = Duration::from_secs(600);

/// The most names reported within [`AGAIN`], of each kind in each namespace. So a tenant who causes
/// one kind of report silences neither another kind nor another tenant.
pub(super) const MAX_TOLD: usize = 64;

/// The most EgressFirewalls with the name that get a report at once: the others follow the next
/// time.
const MAX_ABOUT: usize = 8;

/// Reports to the authors.
#[derive(Debug)]
pub(super) struct NameEvents {
    reporter: Reporter,
    /// The reported names by kind and namespace.
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

    /// Reports to some of the EgressFirewalls `about` that use the name, unless the same was
    /// reported lately. `reason` is that of the Event. `kind` separates reports with the same
    /// reason.
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
            told.insert(name.clone());
            self.reporter
                .report(about.clone(), Severity::Warning, reason, note());
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

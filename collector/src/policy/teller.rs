//! Tells the authors of rules what happens to the names in them, once in a while and not of every name.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::report::{Reporter, Severity};
use tokio::time::Instant;

/// The same of the same rule's name is told this often.
pub(super) const AGAIN: Duration = Duration::from_secs(600);

/// So many names are told of within [`AGAIN`], of each kind: what a tenant can cause of one kind silences no other.
pub(super) const MAX_TOLD: usize = 256;

/// Of the EgressFirewalls that use a name so many are told.
const MAX_ABOUT: usize = 8;

/// Tells the authors.
#[derive(Debug)]
pub(super) struct Teller {
    reporter: Reporter,
    /// By kind and name.
    pub(super) told: HashMap<&'static str, HashMap<DnsName, Instant>>,
}

impl Teller {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            told: HashMap::new(),
        }
    }

    /// Tells some of the EgressFirewalls `about` that use the name, unless the same was told a while ago. `reason` is that of the Event,
    /// and `kind` tells apart what has the same.
    pub(super) fn tell<'a>(
        &mut self,
        name: &DnsName,
        (reason, kind): (&'static str, &'static str),
        about: impl Iterator<Item = &'a ObjectReference>,
        note: impl FnOnce() -> String,
        now: Instant,
    ) {
        let mut about = about.take(MAX_ABOUT).peekable();
        if about.peek().is_none() || !self.is_news(name, kind, now) {
            return;
        }
        let note = note();
        for about in about {
            let about = about.clone();
            self.reporter
                .report(about, Severity::Warning, reason, note.as_str());
        }
    }

    /// Warns of an object. The same note is told again only after a while.
    pub(super) fn warn(&self, about: &ObjectReference, reason: &'static str, note: &str) {
        let about = about.clone();
        self.reporter.report(about, Severity::Warning, reason, note);
    }

    fn is_news(&mut self, name: &DnsName, kind: &'static str, now: Instant) -> bool {
        let is_recent = |told: &Instant| now.duration_since(*told) < AGAIN;
        let of_kind = self.told.entry(kind).or_default();
        if of_kind.get(name).is_some_and(is_recent) {
            return false;
        }
        if of_kind.len() >= MAX_TOLD {
            of_kind.retain(|_, told| is_recent(told));
        }
        let has_room = of_kind.len() < MAX_TOLD;
        if has_room {
            of_kind.insert(name.clone(), now);
        }
        has_room
    }
}

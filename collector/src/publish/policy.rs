//! The configuration of the publisher: how the objects of each source of names are created and written, and the limits.

use std::time::Duration;

use clap::ValueEnum;
use names::{Limits, NamespaceCaps, Namespaces};
use runtime::token_bucket::TokenRate;

use super::{NewAddresses, guards::Guards};
use crate::{
    listen::PeerIds,
    matching::answer_cache::AnswerCache,
    rules::{Source, notices::Notices},
};

/// The bytes of all writes a second. etcd keeps the versions of ten minutes, which are 600 MiB at most.
const WRITE_BYTES: u32 = 1 << 20;

/// For how long unused bytes are saved.
const SAVED_FOR: Duration = Duration::from_secs(10);

/// The bytes of an object's writes a second. etcd keeps each version for some minutes.
pub(super) const OBJECT_RATE: TokenRate = TokenRate {
    bytes_per_second: 128.0 * 1024.0,
    saved_for: SAVED_FOR,
};

/// Whether the collector creates and deletes objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ManageObjects {
    /// The collector makes an object for a name if no other program made one within ten seconds.
    Auto,
    /// The collector makes an object at once for every name that lacks one.
    Always,
    /// The collector makes none and uses those that are there.
    Never,
}

/// How objects are created and written.
#[derive(Clone, Debug)]
pub struct ObjectPolicy {
    /// For the objects of each source.
    pub sources: Vec<SourcePolicy>,
    /// The bytes of all writes a second.
    pub write_bytes: u32,
}

/// How the objects of one source are created.
#[derive(Clone, Debug)]
pub struct SourcePolicy {
    pub source: Source,
    /// The namespace of the objects; empty for objects in none.
    pub namespace: String,
    pub manage: ManageObjects,
    /// How long other programs may take to create the object of a name, with
    /// [`ManageObjects::Auto`].
    pub create_after: Duration,
}

impl SourcePolicy {
    /// The collector creates an object for every name at once.
    pub fn new(source: Source, namespace: impl Into<String>) -> Self {
        Self {
            source,
            namespace: namespace.into(),
            manage: ManageObjects::Always,
            create_after: Duration::ZERO,
        }
    }
}

impl ObjectPolicy {
    /// For these sources.
    pub fn new(sources: Vec<SourcePolicy>) -> Self {
        Self {
            sources,
            write_bytes: WRITE_BYTES,
        }
    }

    /// For the objects of EgressFirewalls alone.
    pub fn of_egress_firewalls(namespace: impl Into<String>, manage: ManageObjects) -> Self {
        let policy = SourcePolicy::new(Source::EgressFirewall, namespace);
        Self::new(vec![SourcePolicy { manage, ..policy }])
    }

    /// The rate of all writes.
    pub(super) fn rate(&self) -> TokenRate {
        TokenRate {
            bytes_per_second: self.write_bytes.max(1).into(),
            saved_for: SAVED_FOR,
        }
    }

    pub(crate) fn of(&self, source: Source) -> Option<&SourcePolicy> {
        self.sources.iter().find(|it| it.source == source)
    }

    /// The namespace of the objects of a source.
    pub(crate) fn namespace(&self, source: Source) -> &str {
        self.of(source).map_or("", |policy| &policy.namespace)
    }

    /// The source whose objects are in this namespace.
    pub(crate) fn source_in(&self, namespace: &str) -> Option<Source> {
        let mut sources = self.sources.iter();
        let found = sources.find(|it| it.namespace == namespace);
        found.map(|policy| policy.source)
    }
}

impl Default for ObjectPolicy {
    /// The collector creates an object for every name of an EgressFirewall at once.
    fn default() -> Self {
        Self::of_egress_firewalls("ovn-kubernetes", ManageObjects::Always)
    }
}

/// The configuration of the publisher. The default has the limits that the flags have by default,
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

/// State shared with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that no rule wanted when they came.
    pub remembered: AnswerCache,
    /// The numbers of namespaces.
    pub namespaces: Namespaces,
    /// Reports names that are left out to the authors of rules.
    pub notices: Notices,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
    /// The peers by their numbers.
    pub peers: PeerIds,
}

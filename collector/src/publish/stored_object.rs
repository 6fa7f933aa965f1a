//! An object, as the store was last known to have it, and the writes that replace or delete it.

use std::sync::Arc;

use kube::{ResourceExt, core::ObjectMeta};
use proto::api::{
    DnsName, DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, object_name,
};
use runtime::{
    clock::Timestamp,
    store::{ObjectKey, Precondition},
    token_bucket::TokenBucket,
};

use super::{policy::ObjectPolicy, write::Write};
use crate::rules::Source;
use names::Stored;

/// The label, with its value, of objects that the collector made.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "collector");

/// The most superseded versions remembered for an object.
const SUPERSEDED: usize = 8;

/// The relevant state of an object, as the store was last known to have it.
#[derive(Debug)]
pub(crate) struct StoredObject {
    /// The source of names that it belongs to.
    pub(crate) source: Source,
    /// `metadata.name`.
    pub(crate) name: Arc<str>,
    version: Box<str>,
    /// Whether the collector made it.
    pub(crate) is_ours: bool,
    pub(crate) status: Stored,
    /// Since when no rule of its source has the name. The collector deletes its own objects after
    /// [`UNUSED_FOR`](names::UNUSED_FOR).
    pub(crate) no_rule_since: Option<Timestamp>,
    /// When this process last wrote it.
    pub(crate) written: Timestamp,
    /// The bytes of its writes.
    pub(super) bucket: TokenBucket,
    /// Earlier versions: a late watch event with one of them is ignored.
    superseded: Box<[Box<str>]>,
}

impl StoredObject {
    /// `status` is the decoded status of `object`.
    pub(crate) fn new(source: Source, object: &DnsNameResolver, status: Stored) -> Self {
        let (label, value) = MANAGED_BY;
        Self {
            source,
            name: object.name_any().into(),
            version: version(object).into(),
            is_ours: object.labels().get(label).is_some_and(|it| it == value),
            status,
            no_rule_since: None,
            written: Timestamp::default(),
            bucket: TokenBucket::default(),
            superseded: Box::default(),
        }
    }

    /// The object's key, in the namespace of the objects of its source.
    pub(crate) fn key(&self, policy: &ObjectPolicy) -> ObjectKey {
        ObjectKey {
            namespace: policy.namespace(self.source).to_owned(),
            name: self.name.as_ref().to_owned(),
        }
    }

    /// Replaces the state by another version, or by another object of the same name. No two objects share a version.
    pub(crate) fn replace(&mut self, new: Self) {
        let old = std::mem::replace(self, new);
        self.name = old.name;
        (self.written, self.bucket) = (old.written, old.bucket);
        self.superseded = old.superseded;
        self.no_rule_since = old.no_rule_since;
        if self.version != old.version {
            let mut superseded = std::mem::take(&mut self.superseded).into_vec();
            if superseded.len() >= SUPERSEDED {
                superseded.remove(0);
            }
            superseded.push(old.version);
            self.superseded = superseded.into();
        }
    }

    /// Whether `seen` is an earlier version, as a late watch event has it. Once
    /// the watch has reached the newest version, none can follow.
    pub(crate) fn is_late(&mut self, seen: &DnsNameResolver) -> bool {
        let version = version(seen);
        if *self.version == *version {
            self.superseded = Box::default();
        }
        self.superseded.iter().any(|old| **old == *version)
    }

    /// The object without its status and without fields that no write needs.
    pub(crate) fn bare(&self, policy: &ObjectPolicy, rule_name: &DnsName) -> DnsNameResolver {
        DnsNameResolver {
            metadata: ObjectMeta {
                name: Some(self.name.as_ref().to_owned()),
                namespace: some(policy.namespace(self.source)),
                resource_version: some(&self.version),
                ..ObjectMeta::default()
            },
            spec: DnsNameResolverSpec {
                name: rule_name.as_str().to_owned(),
            },
            status: None,
        }
    }

    /// The write that replaces its status.
    pub(crate) fn write(
        &self,
        policy: &ObjectPolicy,
        rule_name: &DnsName,
        status: DnsNameResolverStatus,
    ) -> Write {
        Write::Status(Box::new(DnsNameResolver {
            status: Some(status),
            ..self.bare(policy, rule_name)
        }))
    }

    pub(crate) fn delete(&self, key: ObjectKey) -> Write {
        let precondition = Precondition {
            uid: None,
            resource_version: some(&self.version),
        };
        Write::Delete(key, precondition)
    }
}

/// The object to create for a name. `collisions`: the number of objects of other names that have
/// the computed name.
pub(crate) fn new_object(rule_name: &DnsName, collisions: u32, namespace: &str) -> DnsNameResolver {
    let (label, value) = MANAGED_BY;
    DnsNameResolver {
        metadata: ObjectMeta {
            name: Some(object_name(rule_name, collisions.into())),
            namespace: Some(namespace.to_owned()),
            labels: Some([(label.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: DnsNameResolverSpec {
            name: rule_name.as_str().to_owned(),
        },
        status: None,
    }
}

fn version(object: &DnsNameResolver) -> &str {
    object
        .metadata
        .resource_version
        .as_deref()
        .unwrap_or_default()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

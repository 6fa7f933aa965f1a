//! The state that a watch keeps of each file. There may be a hundred thousand files, so it keeps hashes, not objects.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    num::NonZeroU64,
};

use kube::ResourceExt;

use super::super::{
    super::{Kind, ObjectKey},
    file::Fingerprint,
};

/// The known files, by the namespaces and names of their objects.
#[derive(Default)]
pub(super) struct Files(BTreeMap<String, BTreeMap<Box<str>, KnownFile>>);

impl Files {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&KnownFile> {
        self.0.get(&key.namespace)?.get(&*key.name)
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    /// The known state of the file; an empty one for a new file.
    pub(super) fn get_or_new(&mut self, key: &ObjectKey) -> &mut KnownFile {
        let files = self.0.entry(key.namespace.clone()).or_default();
        files.entry(key.name.as_str().into()).or_default()
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(files) = self.0.get_mut(&key.namespace) {
            files.remove(&*key.name);
            if files.is_empty() {
                self.0.remove(&key.namespace);
            }
        }
    }

    pub(super) fn are_in(&self, namespace: &str) -> bool {
        self.0.contains_key(namespace)
    }

    /// The objects of a namespace that have files.
    pub(super) fn keys_in(&self, namespace: &str) -> impl Iterator<Item = ObjectKey> {
        let files = self.0.get(namespace).into_iter().flatten();
        files.map(|(name, _)| ObjectKey {
            namespace: namespace.to_owned(),
            name: (**name).to_owned(),
        })
    }

    /// Consumers may not have the current objects: they are read again, and delivered when they decode.
    pub(super) fn forget_versions(&mut self) {
        for file in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            (file.fingerprint, file.version) = (None, None);
        }
    }
}

/// The hashes of a file's last known state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownFile {
    /// The fingerprint of the file at its last read, if a later change is sure to show.
    fingerprint: Option<NonZeroU64>,
    uid: Option<NonZeroU64>,
    /// The version that was last delivered. `None` if the object must be delivered once it decodes, whatever its
    /// version.
    version: Option<NonZeroU64>,
}

/// The change of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ObjectChange {
    /// The object is the delivered one.
    Nothing,
    Changed,
    /// Another object has replaced it.
    Replaced,
}

impl KnownFile {
    /// Whether the file is unchanged since its last read.
    pub(super) fn has_fingerprint(&self, file: &Fingerprint) -> bool {
        self.fingerprint == Some(hash(file))
    }

    pub(super) fn set_fingerprint(&mut self, file: &Fingerprint) {
        self.fingerprint = file.is_settled().then(|| hash(file));
    }

    /// Records the current object of the file.
    pub(super) fn take<K: Kind>(&mut self, object: &K) -> ObjectChange {
        let before = *self;
        self.uid = object.uid().as_ref().map(hash);
        self.version = object.resource_version().as_ref().map(hash);
        if before.version.is_some() && before.version == self.version {
            ObjectChange::Nothing
        } else if before.uid.is_some() && self.uid.is_some() && before.uid != self.uid {
            ObjectChange::Replaced
        } else {
            ObjectChange::Changed
        }
    }
}

fn hash(value: &impl Hash) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
}

//! What a watch keeps of each file. There may be a hundred thousand: of what was delivered it keeps a mark, not the object.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    num::NonZeroU64,
};

use kube::ResourceExt;

use super::super::{
    super::{Kind, ObjectKey},
    file::Fingerprint,
};

/// The files that are known, by their objects.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<Box<str>, HashMap<Box<str>, Known>>);

/// What is known of a file. The marks are hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The fingerprint of the file as it was last read, if a later change is sure to show.
    fingerprint: Option<NonZeroU64>,
    uid: Option<NonZeroU64>,
    /// The version of what was last delivered. Nothing if it is to be delivered when it decodes, whatever its version.
    version: Option<NonZeroU64>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum News {
    /// It is what was delivered.
    Nothing,
    Changed,
    /// Another one stands in its place.
    Replaced,
}

impl Files {
    fn get(&self, key: &ObjectKey) -> Option<&Known> {
        self.0.get(&*key.namespace)?.get(&*key.name)
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    /// Whether the file is the one that was read.
    pub(super) fn has_fingerprint(&self, key: &ObjectKey, file: &Fingerprint) -> bool {
        let known = self.get(key).and_then(|known| known.fingerprint);
        known == Some(mark(file))
    }

    /// What is known of the file; nothing if it is a new one.
    pub(super) fn entry(&mut self, key: &ObjectKey) -> &mut Known {
        let namespace = self.0.entry(key.namespace.as_str().into()).or_default();
        namespace.entry(key.name.as_str().into()).or_default()
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.0.get_mut(&*key.namespace) {
            namespace.remove(&*key.name);
            if namespace.is_empty() {
                self.0.remove(&*key.namespace);
            }
        }
    }

    /// Whoever heard of the objects last may not know them as they are: each is read again, and delivered when it decodes.
    pub(super) fn forget_versions(&mut self) {
        for known in self.0.values_mut().flat_map(HashMap::values_mut) {
            (known.fingerprint, known.version) = (None, None);
        }
    }

    /// The namespaces that have files.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|namespace| &**namespace)
    }

    pub(super) fn keys_in(&self, namespace: &str) -> impl Iterator<Item = ObjectKey> {
        let names = self.0.get_key_value(namespace);
        names.into_iter().flat_map(|(namespace, names)| {
            names.keys().map(|name| ObjectKey {
                namespace: namespace.to_string(),
                name: name.to_string(),
            })
        })
    }

    pub(super) fn is_empty_in(&self, namespace: &str) -> bool {
        !self.0.contains_key(namespace)
    }
}

impl Known {
    pub(super) fn set_fingerprint(&mut self, file: &Fingerprint) {
        self.fingerprint = file.is_settled().then(|| mark(file));
    }

    /// Takes in the object that the file holds now.
    pub(super) fn take<K: Kind>(&mut self, object: &K) -> News {
        let before = *self;
        self.uid = object.uid().as_ref().map(mark);
        self.version = object.resource_version().as_ref().map(mark);
        if before.version.is_some() && before.version == self.version {
            News::Nothing
        } else if before.uid.is_some() && self.uid.is_some() && before.uid != self.uid {
            News::Replaced
        } else {
            News::Changed
        }
    }
}

fn mark(value: &impl Hash) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
}

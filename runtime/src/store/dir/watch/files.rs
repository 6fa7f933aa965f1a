//! The state that a watch keeps of each file. There may be a hundred thousand files, so it keeps hashes, not objects.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use kube::ResourceExt;

use super::super::{
    super::{Kind, ObjectKey},
    file::Fingerprint,
};

/// The known files, by their objects.
pub(super) type Files = BTreeMap<ObjectKey, KnownFile>;

/// The objects of a namespace that have files.
pub(super) fn keys_in<'a>(
    files: &'a Files,
    namespace: &'a str,
) -> impl Iterator<Item = &'a ObjectKey> {
    let behind = files.range(ObjectKey::before_all_in(namespace)..);
    let keys = behind.map(|(key, _)| key);
    keys.take_while(move |key| key.namespace == namespace)
}

/// The hashes of a file's last known state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownFile {
    /// The fingerprint of the file at its last read, if a later change is sure to show.
    fingerprint: Option<u64>,
    uid: Option<u64>,
    /// The version that was last delivered. `None` if the object must be delivered once it decodes, whatever its
    /// version.
    version: Option<u64>,
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

    /// A consumer may not have the current object: it is read again, and delivered when it decodes.
    pub(super) fn forget_version(&mut self) {
        (self.fingerprint, self.version) = (None, None);
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

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

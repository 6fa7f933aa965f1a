//! What a watch keeps of each file. There may be a hundred thousand: of what was delivered it keeps hashes, not the object.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use kube::ResourceExt;

use super::super::{
    super::{Kind, ObjectKey},
    file::Fingerprint,
};

/// The files that are known, by their objects.
pub(super) type Files = BTreeMap<ObjectKey, Known>;

/// The objects of a namespace that have files.
pub(super) fn keys_in<'a>(
    files: &'a Files,
    namespace: &'a str,
) -> impl Iterator<Item = &'a ObjectKey> {
    let behind = files.range(ObjectKey::before_all_in(namespace)..);
    let keys = behind.map(|(key, _)| key);
    keys.take_while(move |key| key.namespace == namespace)
}

/// The hashes of what is known of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The fingerprint of the file as it was last read, if a later change is sure to show.
    fingerprint: Option<u64>,
    uid: Option<u64>,
    /// The version of what was last delivered. Nothing if it is to be delivered when it decodes, whatever its version.
    version: Option<u64>,
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

impl Known {
    /// Whether the file is the one that was read.
    pub(super) fn has_fingerprint(&self, file: &Fingerprint) -> bool {
        self.fingerprint == Some(hash(file))
    }

    pub(super) fn set_fingerprint(&mut self, file: &Fingerprint) {
        self.fingerprint = file.is_settled().then(|| hash(file));
    }

    /// A consumer may not know the object as it is: it is read again, and delivered when it decodes.
    pub(super) fn forget_version(&mut self) {
        (self.fingerprint, self.version) = (None, None);
    }

    /// Takes in the object that the file holds now.
    pub(super) fn take<K: Kind>(&mut self, object: &K) -> News {
        let before = *self;
        self.uid = object.uid().as_ref().map(hash);
        self.version = object.resource_version().as_ref().map(hash);
        if before.version.is_some() && before.version == self.version {
            News::Nothing
        } else if before.uid.is_some() && self.uid.is_some() && before.uid != self.uid {
            News::Replaced
        } else {
            News::Changed
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

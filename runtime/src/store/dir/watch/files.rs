//! What a watch keeps of each file. There may be a hundred thousand: of what was delivered it keeps a mark, not the object.

use std::{collections::BTreeMap, num::NonZeroU64};

use kube::ResourceExt;
use rapidhash::v3::rapidhash_v3;

use super::super::{
    super::{Kind, ObjectKey},
    file::Print,
};

/// The files that are known, by their objects.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<Box<str>, BTreeMap<Box<str>, Known>>);

/// What is known of a file. The marks are hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The print of the file as it was last read, if a later change is sure to show.
    print: Option<NonZeroU64>,
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
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Known> {
        self.0.get(&*key.namespace)?.get(&*key.name)
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
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

    pub(super) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.0.keys().flat_map(|namespace| self.keys_in(namespace))
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
    /// Whether the file is the one that was read.
    pub(super) fn has_print(&self, print: &Print) -> bool {
        self.print == Some(mark(&print.bytes()))
    }

    pub(super) fn set_print(&mut self, print: Option<Print>) {
        self.print = print.map(|print| mark(&print.bytes()));
    }

    /// Takes in the object that the file holds now.
    pub(super) fn take<K: Kind>(&mut self, object: &K) -> News {
        let of = |text: Option<String>| text.map(|text| mark(text.as_bytes()));
        let before = *self;
        (self.uid, self.version) = (of(object.uid()), of(object.resource_version()));
        if before.version.is_some() && before.version == self.version {
            News::Nothing
        } else if before.uid.is_some() && self.uid.is_some() && before.uid != self.uid {
            News::Replaced
        } else {
            News::Changed
        }
    }

    /// Whoever heard of it last may not know it as it is: it is read again, and delivered when it decodes.
    pub(super) fn was_missed(&mut self) {
        (self.print, self.version) = (None, None);
    }
}

fn mark(bytes: &[u8]) -> NonZeroU64 {
    NonZeroU64::new(rapidhash_v3(bytes)).unwrap_or(NonZeroU64::MIN)
}

//! The store of the objects that the programs read and write.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub(crate) mod decode;
pub mod dir;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod undecodable;
pub(crate) mod watched;

use std::{collections::BTreeSet, fmt, future::Future, str::FromStr};

use futures_util::Stream;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use proto::api::Lint;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cluster::{KindScope, Object};

pub use self::{
    metrics::METRICS,
    watched::{BadObject, BadObjects},
};

/// A kind of stored object. A folder has only objects in namespaces. The key of another object has an empty namespace.
pub trait Kind: Object + PartialEq + Serialize + Lint {
    /// Whether its objects are in namespaces.
    const IS_NAMESPACED: bool = <Self::Scope as KindScope>::IS_NAMESPACED;
}

impl<K: Object + PartialEq + Serialize + Lint> Kind for K {}

/// The identity of an object in its kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object that came from a store.
    pub fn of(object: &impl Resource) -> Self {
        Self::of_meta(object.meta())
    }

    pub(crate) fn of_meta(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The reference to the object in an Event, with the key only.
    pub fn reference<K: Resource<DynamicType = ()>>(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectReference::default()
        }
    }

    /// A key that sorts before those of all objects of a namespace. No object has such a key.
    pub fn before_all_in(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: String::new(),
        }
    }
}

/// Reduces an object's metadata to name, namespace, uid and version, to save memory.
///
/// # Errors
/// The input is no metadata.
pub fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let metadata = ObjectMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        ..ObjectMeta::default()
    })
}

/// An object with the metadata that are stored on creation.
pub(crate) fn to_be_made<K: Kind>(object: &K, key: &ObjectKey) -> K {
    let mut made = object.clone();
    *made.meta_mut() = ObjectMeta {
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        labels: object.meta().labels.clone(),
        annotations: object.meta().annotations.clone(),
        owner_references: object.meta().owner_references.clone(),
        ..ObjectMeta::default()
    };
    made
}

impl FromStr for ObjectKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').unwrap_or_default();
        let key = Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match names::check(&key) {
            Ok(()) => Ok(key),
            Err(_) => Err("an object is named `NAMESPACE/NAME`, as in `kube-system/coredns`"),
        }
    }
}

/// `NAMESPACE/NAME`, or `NAME` without a namespace.
impl Serialize for ObjectKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The namespaces to watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Every namespace.
    All,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// Whether a namespace is in the scope.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(only) => only == namespace,
        }
    }
}

/// `*` for every namespace.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "*",
            Self::Namespace(namespace) => namespace,
        })
    }
}

/// An event of a watch. The first one is [`Event::Synced`], [`Event::OutOfSync`], or [`Event::Undecodable`] if some
/// objects cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<K> {
    /// The whole content, without the objects of the last [`Event::Undecodable`]. An object that is in neither is
    /// deleted. It comes at the start and after every gap.
    Synced(Vec<K>),
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted; it may never have been decodable.
    Deleted(ObjectKey),
    /// All objects that exist but cannot be read now. They do not decode, are being written, or are in a folder that
    /// cannot be read.
    ///
    /// The last known state of these objects stays valid. If there is none, their absence means nothing.
    ///
    /// The event comes whenever the set changes: before an event that lacks these objects, such as [`Event::Synced`],
    /// and after an event that resolves them.
    Undecodable(BTreeSet<ObjectKey>),
    /// The store cannot be read, for this reason. Until the next [`Event::Synced`] the known state stays valid, and
    /// missing objects mean nothing.
    OutOfSync(String),
}

impl<K> Event<K> {
    /// The event with each object converted.
    pub fn map<T>(self, make: impl Fn(K) -> T) -> Event<T> {
        match self {
            Self::Synced(objects) => Event::Synced(objects.into_iter().map(make).collect()),
            Self::Applied(object) => Event::Applied(make(object)),
            Self::Deleted(key) => Event::Deleted(key),
            Self::Undecodable(keys) => Event::Undecodable(keys),
            Self::OutOfSync(reason) => Event::OutOfSync(reason),
        }
    }
}

/// The condition for a deletion. Fields that are `None` are not compared.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// Why the store refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The object does not exist: read again.
    #[error("{0} does not exist")]
    NotFound(ObjectKey),
    /// An object of this name exists: read it.
    #[error("{0} exists already")]
    AlreadyExists(ObjectKey),
    /// The object has changed: read it, compute again, write again.
    #[error("{0} was changed by another writer")]
    Conflict(ObjectKey),
    /// The object can never be stored as it is.
    #[error("{key} is refused: {reason}")]
    Invalid {
        /// The object.
        key: ObjectKey,
        /// The store's message.
        reason: String,
    },
    /// The object would be larger than the store allows: write less.
    #[error("{key} is too large: {reason}")]
    TooLarge {
        /// The object.
        key: ObjectKey,
        /// The store's message.
        reason: String,
    },
    /// The store cannot be reached or used now: retry later. A write may or may not have happened.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// One line for people.
        reason: String,
    },
}

impl StoreError {
    /// [`StoreError::Unavailable`].
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable {
            reason: reason.into(),
        }
    }
}

/// The store of objects: a folder, or a Kubernetes cluster.
pub trait Store: Clone + Send + Sync + 'static {
    /// All objects of a kind in the scope, then their changes, without end. An object that does not decode is skipped,
    /// counted, logged, and listed in [`Event::Undecodable`]; its last state stays valid. The watch keeps no objects:
    /// the consumer must keep those that it needs.
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static;

    /// One object in its current state.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Invalid`] (it exists but does not decode), [`StoreError::Unavailable`].
    fn get<K: Kind>(&self, key: &ObjectKey) -> impl Future<Output = Result<K, StoreError>> + Send;

    /// Creates an object from `metadata` (namespace, name, labels, annotations, owners) and all else but `status`. Returns it as stored, with
    /// its uid and version. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`], [`StoreError::Invalid`], [`StoreError::TooLarge`], [`StoreError::Unavailable`].
    fn create<K: Kind>(&self, object: &K) -> impl Future<Output = Result<K, StoreError>> + Send;

    /// Deletes an object if the precondition holds.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::Unavailable`].
    fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Replaces the status of the object, and nothing else, by compare-and-swap. The stored `resourceVersion` must be
    /// that of `object`, and so must the uid if the given object has one. Returns the object as stored. Durable when it
    /// returns.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::Invalid`], [`StoreError::TooLarge`],
    /// [`StoreError::Unavailable`].
    fn replace_status<K: Kind>(
        &self,
        object: &K,
    ) -> impl Future<Output = Result<K, StoreError>> + Send;

    /// Replaces labels, annotations, owners, and all fields of the object but `status`, by compare-and-swap like
    /// [`Store::replace_status`]. Returns the object as stored. Durable when it returns.
    ///
    /// # Errors
    /// Those of [`Store::replace_status`].
    fn replace<K: Kind>(&self, object: &K) -> impl Future<Output = Result<K, StoreError>> + Send;
}

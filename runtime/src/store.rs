//! The store: where the objects live that the programs read and write.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod dir;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod object_cache;
pub(crate) mod undecodable;
pub(crate) mod watched;

use std::{collections::BTreeSet, fmt, future::Future, str::FromStr, time::Duration};

use futures_util::Stream;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::NamespaceResourceScope};
use proto::api::{DnsNameResolver, EgressFirewall};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

pub use self::{
    metrics::METRICS,
    watched::{BadObject, BadObjects},
};

/// A kind of object that a store holds.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + PartialEq
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl Kind for DnsNameResolver {}
impl Kind for EgressFirewall {}

/// Where an object is.
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
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The object, of which nothing else is known, for Events.
    pub fn reference<K: Resource<DynamicType = ()>>(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectReference::default()
        }
    }

    /// Comes before the keys of all objects of a namespace, in their order. No object has such a key.
    pub fn before_all_in(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: String::new(),
        }
    }

    /// Stands for all objects of a namespace of which not even the names can be read. No object has such a key.
    pub fn all_in(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: "*".to_owned(),
        }
    }

    /// Whether it is such a key.
    pub(crate) fn is_all(&self) -> bool {
        self.name == "*"
    }
}

/// Of the metadata of an object name, namespace, uid and version alone, where no more of it is kept.
///
/// # Errors
/// It is no metadata.
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

/// An object with what is stored of its metadata when it is made.
pub(crate) fn to_be_made<K: Kind>(object: &K, key: &ObjectKey) -> K {
    let mut made = object.clone();
    *made.meta_mut() = ObjectMeta {
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        labels: object.meta().labels.clone(),
        annotations: object.meta().annotations.clone(),
        ..ObjectMeta::default()
    };
    made
}

/// Why a text does not name an object.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an object is named `NAMESPACE/NAME`, as in `kube-system/coredns`")]
pub struct ObjectKeyError;

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or(ObjectKeyError)?;
        if !names::is_namespace(namespace) || !names::is_object_name(name) {
            return Err(ObjectKeyError);
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// `NAMESPACE/NAME`.
impl Serialize for ObjectKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which namespaces to watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Every namespace.
    All,
    /// One namespace.
    Namespace(String),
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

/// What a watch delivers. It starts with [`Event::Synced`] or [`Event::OutOfSync`], or with [`Event::Undecodable`] if the
/// content lacks something.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<K> {
    /// The whole content, but for the objects of the last [`Event::Undecodable`]. What was known before and is in neither is
    /// gone. It comes at the start and after every gap.
    Synced(Vec<K>),
    /// An object was made or changed.
    Applied(K),
    /// An object was deleted, perhaps one that never decoded.
    Deleted(ObjectKey),
    /// All objects that are there but cannot be read now: they do not decode, are being written, or are in a namespace
    /// that cannot be read, for which [`ObjectKey::all_in`] stands where none of them is known. What is known of them holds, and if that is nothing, nothing follows from their missing. It comes whenever these change; before
    /// [`Event::Synced`] or what else lacks them, and after what ends it.
    Undecodable(BTreeSet<ObjectKey>),
    /// The store cannot be read, for this reason: what was known holds, and nothing follows from what is missing, until
    /// the next [`Event::Synced`].
    OutOfSync(String),
}

impl<K> Event<K> {
    /// The event with something made of each object.
    pub(crate) fn map<T>(self, make: impl Fn(K) -> T) -> Event<T> {
        match self {
            Self::Synced(objects) => Event::Synced(objects.into_iter().map(make).collect()),
            Self::Applied(object) => Event::Applied(make(object)),
            Self::Deleted(key) => Event::Deleted(key),
            Self::Undecodable(keys) => Event::Undecodable(keys),
            Self::OutOfSync(reason) => Event::OutOfSync(reason),
        }
    }
}

/// What must still be true of an object for its deletion. Fields that are `None` are not compared.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// Why the store did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such object: read again.
    #[error("{0} does not exist")]
    NotFound(ObjectKey),
    /// An object of this name is there already: read it.
    #[error("{0} exists already")]
    AlreadyExists(ObjectKey),
    /// The object is no longer the one that was read: read it, compute again, write again.
    #[error("{0} was changed by somebody else")]
    Conflict(ObjectKey),
    /// The object can never be stored as it is.
    #[error("{key} is refused: {reason}")]
    Invalid {
        /// Which object.
        key: ObjectKey,
        /// The store's words.
        reason: String,
    },
    /// The object would be larger than the store takes: write less of it.
    #[error("{key} is too large: {reason}")]
    TooLarge {
        /// Which object.
        key: ObjectKey,
        /// The store's words.
        reason: String,
    },
    /// The store cannot be reached or used now: try again later. Whether a write took place is unknown.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// One line for people.
        reason: String,
        /// How long the store asks to be left alone, if it says so.
        retry_after: Option<Duration>,
    },
}

impl StoreError {
    /// [`StoreError::Unavailable`], with nothing said of when to try again.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable {
            reason: reason.into(),
            retry_after: None,
        }
    }
}

/// Where objects live: a folder, or a Kubernetes cluster.
pub trait Store: Clone + Send + Sync + 'static {
    /// All objects of a kind in the scope, then their changes, without end. An object that does not decode is skipped,
    /// counted and named in the log, and stands in [`Event::Undecodable`]; what was known of it holds. The watch itself
    /// keeps no object: who needs them keeps what is needed.
    fn watch<K: Kind>(&self, scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static;

    /// The keys of all objects of a kind in the scope, whether they decode or not: one complete list, made now. For a
    /// namespace that cannot be read while others can, [`ObjectKey::all_in`] stands.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: a part of the list cannot be had, or the kind is not served.
    fn list_keys<K: Kind>(
        &self,
        scope: &Scope,
    ) -> impl Future<Output = Result<BTreeSet<ObjectKey>, StoreError>> + Send;

    /// One object as it is now.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Invalid`] (it is there but does not decode), [`StoreError::Unavailable`].
    fn get<K: Kind>(&self, key: &ObjectKey) -> impl Future<Output = Result<K, StoreError>> + Send;

    /// Makes an object, of `metadata` (namespace, name, labels, annotations) and `spec`; returns it as stored, with its
    /// uid and version. Durable when it returns.
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

    /// Compare-and-swap: replaces the status of the object, and nothing else, if the stored `resourceVersion` (and uid, where the
    /// given object has one) still is that of `object`; returns it as stored. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::Invalid`], [`StoreError::TooLarge`],
    /// [`StoreError::Unavailable`].
    fn replace_status<K: Kind>(
        &self,
        object: &K,
    ) -> impl Future<Output = Result<K, StoreError>> + Send;
}

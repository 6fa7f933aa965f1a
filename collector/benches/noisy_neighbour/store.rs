//! A store in memory that takes some milliseconds for each write, as an API server does, and
//! records when addresses are acknowledged.

use std::{
    any::Any,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt, stream};
use proto::api::DnsNameResolver;
use runtime::store::{Event, Kind, ObjectKey, Precondition, Scope, Store, StoreError};

/// The time of a write.
const WRITE: Duration = Duration::from_millis(2);

/// Addresses in flight, by their text, with the time of their frames.
pub(crate) type Sent = Arc<Mutex<HashMap<String, (usize, Instant)>>>;

/// Clones share the objects.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    objects: Arc<Mutex<HashMap<ObjectKey, DnsNameResolver>>>,
    /// Addresses in flight; acknowledged ones are removed.
    pub(crate) sent: Sent,
    /// The delay of each acknowledged address, with its kind.
    pub(crate) took: Arc<Mutex<Vec<(usize, Duration)>>>,
}

/// Converts between kinds of objects; in fact there is only one here.
fn cast<A: 'static, B: 'static>(object: A) -> B {
    let object: Box<dyn Any> = Box::new(object);
    *object.downcast().unwrap()
}

impl Scripted {
    /// The objects with addresses.
    pub(crate) fn filled(&self) -> usize {
        let objects = self.objects.lock().unwrap();
        objects.values().filter(|it| it.status.is_some()).count()
    }

    fn put(&self, mut object: DnsNameResolver) -> DnsNameResolver {
        let mut objects = self.objects.lock().unwrap();
        let key = ObjectKey::of(&object);
        let stored = objects.get(&key);
        let version = stored.and_then(|it| it.metadata.resource_version.as_deref()?.parse().ok());
        object.metadata.resource_version = Some((version.unwrap_or(0_u64) + 1).to_string());
        object.metadata.uid.get_or_insert_with(|| key.name.clone());
        objects.insert(key, object.clone());
        object
    }

    /// Records the addresses of a written status.
    fn acknowledge(&self, object: &DnsNameResolver) {
        let now = Instant::now();
        let (mut sent, mut took) = (self.sent.lock().unwrap(), self.took.lock().unwrap());
        let entries = object.status.iter().flat_map(|it| &it.resolved_names);
        for address in entries.flat_map(|entry| &entry.resolved_addresses) {
            if let Some((what, at)) = sent.remove(address.ip.as_str()) {
                took.push((what, now - at));
            }
        }
    }
}

impl Store for Scripted {
    // No other process writes, so there are no events.
    fn watch<K: Kind>(&self, _scope: Scope) -> impl Stream<Item = Event<K>> + Send + 'static {
        stream::iter([Event::Synced(Vec::new())]).chain(stream::pending())
    }

    async fn list_keys<K: Kind>(&self, _scope: &Scope) -> Result<BTreeSet<ObjectKey>, StoreError> {
        Ok(self.objects.lock().unwrap().keys().cloned().collect())
    }

    async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<K, StoreError> {
        let object = self.objects.lock().unwrap().get(key).cloned();
        object.map(cast).ok_or(StoreError::NotFound(key.clone()))
    }

    async fn create<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        tokio::time::sleep(WRITE).await;
        Ok(cast(self.put(cast(object.clone()))))
    }

    async fn delete<K: Kind>(
        &self,
        key: &ObjectKey,
        _precondition: &Precondition,
    ) -> Result<(), StoreError> {
        panic!("nothing is to be deleted: {key}");
    }

    async fn replace_status<K: Kind>(&self, object: &K) -> Result<K, StoreError> {
        tokio::time::sleep(WRITE).await;
        let stored = self.put(cast(object.clone()));
        self.acknowledge(&stored);
        Ok(cast(stored))
    }
}

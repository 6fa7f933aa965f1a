//! Watches of the API server: kube's watcher, which goes on after a broken connection, and lists again when the server
//! no longer knows its version.
//!
//! - An object that does not decode is reported, and costs no other.
//! - After five failures in a row the content counts as unknown, and is listed again.
//! - Once a minute, and after a failure, a list of one object shows the newest version. If it is below one that was seen, etcd was restored from
//!   a backup, and the watch begins anew: from the known version it would stay silent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
    core::{ClusterResourceScope, NamespaceResourceScope},
    runtime::watcher::{
        self,
        InitialListStrategy::{ListWatch, StreamingList},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::{answer, in_words};
use crate::store::{
    BadObjects, Event, ObjectKey, Scope,
    decode::{Undecoded, decode},
    undecodable::Undecodable,
    watched::Watched,
};

/// The requested duration of one watch, in seconds: shorter than the silence after which a connection is closed.
const WATCH_SECONDS: u32 = 50;

/// The number of objects in a page of a list; large objects have half a megabyte.
const PAGE: u32 = 100;

/// The interval of looking for a restore of etcd.
const CHECK: Duration = Duration::from_secs(60);

/// The time from a failure to the next look: a restore breaks all watches.
const CHECK_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// After this many failures in a row the content counts as unknown.
const FAILURES: usize = 5;

/// The pauses after failures in a row.
const WAITS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(5))
    .without_max_times();

/// Failures further apart than this are not in a row. Longer than the longest duration of one failure.
const IN_A_ROW: Duration = Duration::from_secs(150);

/// Whether objects of a kind are in namespaces.
pub trait KindScope: Sized {
    /// Whether they are.
    const IS_NAMESPACED: bool;

    /// The requests for objects in a namespace. Objects in no namespace are all objects.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K>;
}

impl KindScope for NamespaceResourceScope {
    const IS_NAMESPACED: bool = true;

    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K> {
        Api::namespaced(client, namespace)
    }
}

impl KindScope for ClusterResourceScope {
    const IS_NAMESPACED: bool = false;

    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, _: &str) -> Api<K> {
        Api::all(client)
    }
}

/// An object that can be watched.
pub trait Object:
    Resource<DynamicType = (), Scope: KindScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope: KindScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// All objects of a kind, then their changes, without end, like [`crate::store::Store::watch`]. `labels` is a label
/// selector. `bad` gets the objects that do not decode.
pub(crate) fn watch<K: Object>(
    client: Client,
    scope: Scope,
    labels: Option<String>,
    bad: BadObjects,
) -> impl Stream<Item = Event<K>> + Send + 'static {
    let selected = labels.as_deref().map(|labels| format!("{scope} {labels}"));
    let watched = Watched::new::<K>(selected.unwrap_or_else(|| scope.to_string()), bad);
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match scope {
        Scope::Namespace(namespace) if K::Scope::IS_NAMESPACED => {
            Api::namespaced_with(client, &namespace, &kind)
        }
        _ => Api::all_with(client, &kind),
    };
    let mut content = Content::new(watched);
    changes(api, kind, labels).flat_map(move |change| stream::iter(content.events(change)))
}

/// What a watch of the API server says, or why it says nothing.
type Change = Result<watcher::Event<DynamicObject>, String>;

/// The changes of objects of any kind: compiled once.
fn changes(
    api: Api<DynamicObject>,
    kind: ApiResource,
    labels: Option<String>,
) -> BoxStream<'static, Change> {
    let mut config = watcher::Config {
        label_selector: labels,
        timeout: Some(WATCH_SECONDS),
        page_size: Some(PAGE),
        ..watcher::Config::default()
    }
    .streaming_lists();
    let changes = async_stream::stream! {
        let (mut failures, mut last_failure) = (0, Instant::now());
        let mut is_lost = false;
        let newest = AtomicU64::new(0);
        'anew: loop {
            let mut changes = pin!(watcher(api.clone(), config.clone()));
            let mut check = pin!(is_restored(&api, &kind, &newest, CHECK));
            let mut is_listed = false;
            loop {
                let change = tokio::select! {
                    Some(change) = changes.next() => change,
                    is_restored = &mut check => {
                        if is_restored {
                            continue 'anew;
                        }
                        check.set(self::is_restored(&api, &kind, &newest, CHECK));
                        continue;
                    }
                };
                let error = match change {
                    Ok(change) => {
                        if !matches!(change, watcher::Event::Init | watcher::Event::InitApply(_)) {
                            failures = 0;
                        }
                        if matches!(change, watcher::Event::InitDone) {
                            (is_listed, is_lost) = (true, false);
                        }
                        newest.fetch_max(version_of(&change), Relaxed);
                        yield Ok(change);
                        continue;
                    }
                    Err(error) => error,
                };
                // Before Kubernetes 1.34, or with an old etcd, the server refuses a streaming list, in several ways.
                if !is_listed && config.initial_list_strategy == StreamingList {
                    config.initial_list_strategy = ListWatch;
                    continue 'anew;
                }
                check.set(is_restored(&api, &kind, &newest, CHECK_AFTER_FAILURE));
                if last_failure.elapsed() > IN_A_ROW {
                    failures = 0;
                }
                let wait = WAITS.build().nth(failures.min(10)).unwrap_or_default();
                (failures, last_failure) = (failures + 1, Instant::now());
                if failures == FAILURES && !mem::replace(&mut is_lost, true) {
                    yield Err(reason(&error, &kind));
                }
                sleep(wait).await;
                if is_lost || is_gone(&error) {
                    continue 'anew;
                }
            }
        }
    };
    changes.boxed()
}

/// Whether, after a wait, the server's version is below `newest`, which takes it over. Events that come during the request may be
/// newer than its answer. A list without a version reads the newest state, whichever API server answers and however old
/// its cache is. Resource versions of one kind are growing numbers: Kubernetes promises it since 1.35, and etcd did so
/// before.
async fn is_restored(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    newest: &AtomicU64,
    wait: Duration,
) -> bool {
    sleep(wait).await;
    let before = newest.load(Relaxed);
    let one = ListParams::default().limit(1);
    let list = answer(api.list_metadata(&one)).await.ok();
    let version = list.and_then(|list| list.metadata.resource_version?.parse::<u64>().ok());
    let Some(version) = version else {
        return false;
    };
    if version >= before {
        newest.fetch_max(version, Relaxed);
        return false;
    }
    warn!(
        kind = kind.kind,
        "the cluster went back from version {before} to {version}, as after a restore: listing everything again"
    );
    newest.store(version, Relaxed);
    true
}

/// The version of the object; 0 if it has none that can be compared.
fn version_of(change: &watcher::Event<DynamicObject>) -> u64 {
    let (watcher::Event::Apply(object)
    | watcher::Event::Delete(object)
    | watcher::Event::InitApply(object)) = change
    else {
        return 0;
    };
    let version = object.metadata.resource_version.as_ref();
    version.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Whether the server no longer knows the version to go on from. As an event of a watch, kube's watcher handles it.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Why the content is unknown. A kind that the server does not serve is named by its definition.
fn reason(error: &watcher::Error, kind: &ApiResource) -> String {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
            if status.code == 404 =>
        {
            let ApiResource { plural, group, .. } = kind;
            format!(
                "the API server does not serve {plural}.{group}: install its CustomResourceDefinition"
            )
        }
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => in_words(error),
        WatchError(status) => status.message.replace(['\n', '\r'], " "),
        NoResourceVersion => error.to_string(),
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum WatchState {
    /// Nothing has been delivered yet.
    #[default]
    Starting,
    InSync,
    OutOfSync,
}

/// The watch's own knowledge of the content. The consumer has the objects.
struct Content<K> {
    state: WatchState,
    /// The list in progress: its objects, and why others do not decode.
    listed: Vec<K>,
    listed_faults: BTreeMap<ObjectKey, String>,
    /// Why objects do not decode now.
    faults: BTreeMap<ObjectKey, String>,
    /// The same objects, as last reported.
    undecodable: Undecodable,
    watched: Watched,
}

impl<K: Object> Content<K> {
    fn new(watched: Watched) -> Self {
        Self {
            state: WatchState::default(),
            listed: Vec::new(),
            listed_faults: BTreeMap::new(),
            faults: BTreeMap::new(),
            undecodable: Undecodable::default(),
            watched,
        }
    }

    /// Converts a change to events, and keeps track of undecodable objects.
    fn events(&mut self, change: Change) -> Vec<Event<K>> {
        let change = match change {
            Ok(change) => change,
            Err(reason) => return vec![self.lost(reason)],
        };
        let mut decoded = BTreeSet::new();
        let mut events = Vec::new();
        match change {
            watcher::Event::Init => {
                self.listed.clear();
                self.listed_faults.clear();
                return events;
            }
            watcher::Event::InitApply(object) => {
                match object_of(object) {
                    Ok(object) => self.listed.push(object),
                    Err((key, fault)) => drop(self.listed_faults.insert(key, fault)),
                }
                return events;
            }
            watcher::Event::InitDone => {
                self.on_listed();
                let keys = self.listed.iter().map(ObjectKey::of);
                decoded.extend(keys.filter(|key| self.undecodable.has(key)));
                self.faults = mem::take(&mut self.listed_faults);
                events.push(Event::Synced(mem::take(&mut self.listed)));
            }
            watcher::Event::Apply(object) => match object_of(object) {
                Ok(object) => {
                    self.faults.remove(&ObjectKey::of(&object));
                    events.push(Event::Applied(object));
                }
                Err((key, fault)) => drop(self.faults.insert(key, fault)),
            },
            watcher::Event::Delete(object) => {
                let key = ObjectKey::of_meta(&object.metadata);
                self.faults.remove(&key);
                events.push(Event::Deleted(key));
            }
        }
        self.watched.in_sync(self.state == WatchState::InSync);
        let faults = self.faults.iter();
        let faults = faults.map(|(key, fault)| (key.to_string(), fault.clone()));
        self.watched.set_faults(faults.collect());
        if self.state == WatchState::InSync {
            let now = self.faults.keys().cloned().collect();
            self.undecodable
                .around(&mut events, now, |key| decoded.contains(key));
        }
        events
    }

    fn on_listed(&mut self) {
        let objects = self.listed.len();
        if self.state == WatchState::InSync {
            info!(kind = %K::kind(&()), "changes were missed: everything was listed again");
            self.watched.gap();
        } else {
            info!(kind = %K::kind(&()), objects, "in sync with the cluster");
        }
        self.state = WatchState::InSync;
    }

    fn lost(&mut self, reason: String) -> Event<K> {
        warn!(kind = %K::kind(&()), "lost the watch, objects may be outdated: {reason}");
        self.state = WatchState::OutOfSync;
        self.watched.in_sync(false);
        Event::OutOfSync(reason)
    }
}

/// The object of a kind, or its key and why it does not decode.
fn object_of<K: Object>(mut object: DynamicObject) -> Result<K, (ObjectKey, String)> {
    object.metadata.managed_fields = None;
    let key = ObjectKey::of_meta(&object.metadata);
    match serde_json::to_value(object) {
        Ok(value) => decode(&value, &mut |_| {})
            .map_err(|Undecoded { field, error }| (key, format!("`{field}`: {error}"))),
        Err(error) => Err((key, error.to_string())),
    }
}

#[cfg(test)]
mod tests;

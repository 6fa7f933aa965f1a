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
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{Stream, StreamExt};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{ClusterResourceScope, DeserializeGuard, NamespaceResourceScope},
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
use crate::{
    log_rate_limiter::LogRateLimiter,
    store::{BadObjects, Event, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
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
const FAILURES: u32 = 5;

/// Failures further apart than this are not in a row. Longer than the longest duration of one failure.
const IN_A_ROW: Duration = Duration::from_secs(150);

/// How many undecodable objects the log names between two lists.
const MAX_WARNINGS: usize = 20;

/// An outage ends every watch of the program. The gauge of watches in sync tells which ones.
static LOST: LazyLock<LogRateLimiter> =
    LazyLock::new(|| LogRateLimiter::every(Duration::from_secs(30)));

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

/// The selection of objects to watch.
#[derive(Clone, Debug)]
pub(crate) struct Watching {
    pub(crate) scope: Scope,
    /// A label selector.
    pub(crate) labels: Option<String>,
}

impl Watching {
    /// All objects of a scope.
    pub(crate) fn of(scope: Scope) -> Self {
        Self {
            scope,
            labels: None,
        }
    }

    /// A text that distinguishes the selection from others of the same kind.
    fn scope(&self) -> String {
        let mut text = self.scope.to_string();
        if let Some(selector) = &self.labels {
            text.push(' ');
            text.push_str(selector);
        }
        text
    }

    pub(super) fn api<K: Resource<DynamicType = (), Scope: KindScope>>(
        &self,
        client: Client,
    ) -> Api<K> {
        match &self.scope {
            Scope::All => Api::all(client),
            Scope::Namespace(namespace) => K::Scope::api(client, namespace),
        }
    }

    fn config(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            page_size: Some(PAGE),
            ..watcher::Config::default()
        }
    }
}

/// All objects of a kind, then their changes, without end, like [`crate::store::Store::watch`]. `bad` has the objects
/// that do not decode.
pub(crate) fn watch<K: Object>(
    client: Client,
    watching: Watching,
    bad: BadObjects,
) -> impl Stream<Item = Event<K>> + Send + 'static {
    let watched = Watched::new::<K>(watching.scope(), bad);
    async_stream::stream! {
        let api: Api<DeserializeGuard<K>> = watching.api(client.clone());
        let metadata: Api<K> = watching.api(client);
        let mut config = watching.config().streaming_lists();
        let mut content = Content::new(watched);
        let mut failures = Failures::default();
        let newest = AtomicU64::new(0);
        'anew: loop {
            let mut changes = pin!(watcher(api.clone(), config.clone()));
            let mut check = pin!(is_restored(&metadata, &newest, CHECK));
            let mut is_listed = false;
            loop {
                let change = tokio::select! {
                    Some(change) = changes.next() => change,
                    is_restored = &mut check => {
                        if is_restored {
                            continue 'anew;
                        }
                        check.set(self::is_restored(&metadata, &newest, CHECK));
                        continue;
                    }
                };
                let error = match change {
                    Ok(watcher::Event::Init) => {
                        content.listed = Listed::default();
                        continue;
                    }
                    Ok(change) => {
                        if !matches!(change, watcher::Event::InitApply(_)) {
                            failures = Failures::default();
                        }
                        is_listed |= matches!(change, watcher::Event::InitDone);
                        newest.fetch_max(version_of(&change), Relaxed);
                        for event in content.events(change) {
                            yield event;
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                // Before Kubernetes 1.34, or with an old etcd, the server refuses a streaming list, in several ways.
                if !is_listed && config.initial_list_strategy == StreamingList {
                    config.initial_list_strategy = ListWatch;
                    continue 'anew;
                }
                check.set(is_restored(&metadata, &newest, CHECK_AFTER_FAILURE));
                let wait = failures.add(Instant::now());
                if failures.count == FAILURES && let Some(event) = content.lost(reason::<K>(&error)) {
                    yield event;
                }
                sleep(wait).await;
                if content.state == WatchState::OutOfSync || is_gone(&error) {
                    continue 'anew;
                }
            }
        }
    }
}

/// Whether, after a wait, the server's version is below `newest`, which takes it over. Events that come during the request may be
/// newer than its answer. A list without a version reads the newest state, whichever API server answers and however old
/// its cache is. Resource versions of one kind are growing numbers: Kubernetes promises it since 1.35, and etcd did so
/// before.
async fn is_restored<K: Object>(api: &Api<K>, newest: &AtomicU64, wait: Duration) -> bool {
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
        kind = %K::kind(&()),
        "the cluster went back from version {before} to {version}, as after a restore: listing everything again"
    );
    newest.store(version, Relaxed);
    true
}

/// The version of the object; 0 if it has none that can be compared.
fn version_of<K: Resource>(change: &watcher::Event<K>) -> u64 {
    let (watcher::Event::Apply(object)
    | watcher::Event::Delete(object)
    | watcher::Event::InitApply(object)) = change
    else {
        return 0;
    };
    let version = object.meta().resource_version.as_ref();
    version.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Whether the server no longer knows the version to go on from. As an event of a watch, kube's watcher handles it.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Why the content is unknown. A kind that the server does not serve is named by its definition.
fn reason<K: Object>(error: &watcher::Error) -> String {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
            if status.code == 404 =>
        {
            let (plural, group) = (K::plural(&()), K::group(&()));
            format!(
                "the API server does not serve {plural}.{group}: install its CustomResourceDefinition"
            )
        }
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => in_words(error),
        WatchError(status) => status.message.replace(['\n', '\r'], " "),
        NoResourceVersion => error.to_string(),
    }
}

/// Failures in a row.
#[derive(Debug)]
struct Failures {
    count: u32,
    last: Option<Instant>,
    waits: ExponentialBackoff,
}

/// None: the first wait is 100 ms, and the longest 5 s.
impl Default for Failures {
    fn default() -> Self {
        let waits = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .without_max_times();
        Self {
            count: 0,
            last: None,
            waits: waits.build(),
        }
    }
}

impl Failures {
    /// Counts a failure, and returns how long to wait after it.
    fn add(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now - last > IN_A_ROW) {
            *self = Self::default();
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.waits.next().unwrap_or_default()
    }
}

/// All objects of a list so far, and the errors of those that do not decode.
struct Listed<K> {
    objects: Vec<K>,
    faults: BTreeMap<ObjectKey, String>,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            faults: BTreeMap::new(),
        }
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
    /// The list in progress.
    listed: Listed<K>,
    /// Why objects do not decode now.
    faults: BTreeMap<ObjectKey, String>,
    /// The same objects, as last reported.
    undecodable: Undecodable,
    /// Undecodable objects since the last list.
    complaints: usize,
    watched: Watched,
    /// Undecodable objects that were found and not yet counted.
    found: usize,
}

impl<K: Object> Content<K> {
    fn new(watched: Watched) -> Self {
        Self {
            watched,
            found: 0,
            state: WatchState::default(),
            listed: Listed::default(),
            faults: BTreeMap::new(),
            undecodable: Undecodable::default(),
            complaints: 0,
        }
    }

    /// Converts a change to events, and keeps track of undecodable objects.
    fn events(&mut self, change: watcher::Event<DeserializeGuard<K>>) -> Vec<Event<K>> {
        let mut mended = BTreeSet::new();
        let mut events = Vec::new();
        match change {
            watcher::Event::Init => return events,
            watcher::Event::InitApply(DeserializeGuard(decoded)) => {
                match decoded {
                    Ok(object) => self.listed.objects.push(stripped(object)),
                    Err(invalid) => {
                        let key = ObjectKey::of_meta(&invalid.metadata);
                        self.listed.faults.insert(key, invalid.error);
                    }
                }
                return events;
            }
            watcher::Event::InitDone => {
                let listed = mem::take(&mut self.listed);
                let keys = listed.objects.iter().map(ObjectKey::of);
                mended.extend(keys.filter(|key| self.undecodable.has(key)));
                events.push(self.synced(listed));
            }
            watcher::Event::Apply(DeserializeGuard(Ok(object))) => {
                let key = ObjectKey::of(&object);
                if self.faults.remove(&key).is_some() {
                    info!(kind = %K::kind(&()), %key, "decodes again");
                }
                events.push(Event::Applied(stripped(object)));
            }
            watcher::Event::Apply(DeserializeGuard(Err(invalid))) => {
                self.faulty(ObjectKey::of_meta(&invalid.metadata), invalid.error);
            }
            watcher::Event::Delete(object) => {
                let key = ObjectKey::of(&object);
                self.faults.remove(&key);
                events.push(Event::Deleted(key));
            }
        }
        self.report();
        if self.state == WatchState::InSync {
            let now = self.faults.keys().cloned().collect();
            self.undecodable
                .around(&mut events, now, |key| mended.contains(key));
        }
        events
    }

    fn synced(&mut self, listed: Listed<K>) -> Event<K> {
        let faults_before = mem::take(&mut self.faults);
        self.complaints = 0;
        for (key, fault) in listed.faults {
            if faults_before.get(&key) == Some(&fault) {
                self.faults.insert(key, fault);
            } else {
                self.faulty(key, fault);
            }
        }
        match self.state {
            WatchState::InSync => {
                info!(kind = %K::kind(&()), "changes were missed: everything was listed again");
                self.watched.gap();
            }
            WatchState::Starting | WatchState::OutOfSync => {
                info!(kind = %K::kind(&()), objects = listed.objects.len(), "in sync with the cluster");
            }
        }
        self.state = WatchState::InSync;
        Event::Synced(listed.objects)
    }

    fn lost(&mut self, reason: String) -> Option<Event<K>> {
        if self.state == WatchState::OutOfSync {
            return None;
        }
        if let Some(others) = LOST.allow() {
            warn!(kind = %K::kind(&()), others, "lost the watch, objects may be outdated: {reason}");
        }
        self.state = WatchState::OutOfSync;
        self.watched.in_sync(false);
        Some(Event::OutOfSync(reason))
    }

    fn faulty(&mut self, key: ObjectKey, fault: String) {
        self.complaints += 1;
        match self.complaints {
            ..=MAX_WARNINGS => warn!(kind = %K::kind(&()), %key, "does not decode: {fault}"),
            n if n == MAX_WARNINGS + 1 => {
                warn!(kind = %K::kind(&()), "further objects that do not decode are counted, not named");
            }
            _ => {}
        }
        self.faults.insert(key, fault);
        self.found += 1;
    }

    fn report(&mut self) {
        let found = mem::take(&mut self.found);
        self.watched.bad(self.faults.len(), found, || {
            let faults = self.faults.iter();
            faults.map(|(key, fault)| (key.to_string(), fault.clone()))
        });
        self.watched.in_sync(self.state == WatchState::InSync);
    }
}

/// Removes `managedFields`: nothing here reads them, and they are half of a large object.
pub(super) fn stripped<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

#[cfg(test)]
mod tests;

//! A watch without end: a list, then its changes, and a new list after a gap.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    sync::LazyLock,
    time::{Duration, Instant},
};

use futures_util::Stream;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::{info, warn};

use self::list_watch::{ListWatch, Listed, WatchAnswer};
use super::in_words;
use crate::{
    log_rate_limiter::LogRateLimiter,
    store::{BadObjects, Event, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
};

/// After this many failures in a row the content counts as unknown.
const FAILURES: u32 = 5;

/// Failures further apart than this are not in a row. Longer than the longest duration of one failure.
const IN_A_ROW: Duration = Duration::from_secs(150);

/// The wait after a first failure; it doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);

const MAX_WAIT: Duration = Duration::from_secs(5);

/// How many undecodable objects the log names between two lists.
const MAX_WARNINGS: usize = 20;

/// An outage ends every watch of the program. The gauge of watches in sync tells which ones.
static LOST: LazyLock<LogRateLimiter> =
    LazyLock::new(|| LogRateLimiter::every(Duration::from_secs(30)));

/// An object that can be watched.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
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
        let mut changes = ListWatch::new(client, watching);
        let mut content = Content::new(watched);
        let mut failures = Failures::default();
        loop {
            let error = match changes.next().await {
                Ok(change) => {
                    failures.over();
                    for event in content.events(change) {
                        yield event;
                    }
                    continue;
                }
                Err(error) => error,
            };
            let wait = failures.one_more(Instant::now());
            if failures.count == FAILURES && let Some(event) = content.lost(reason::<K>(&error)) {
                yield event;
            }
            sleep(wait).await;
            if content.state == WatchState::OutOfSync || is_gone(&error) {
                changes.restart();
            }
        }
    }
}

/// Why the content is unknown. A kind that the server does not serve is named by its definition.
fn reason<K: Object>(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            let (plural, group) = (K::plural(&()), K::group(&()));
            format!(
                "the API server does not serve {plural}.{group}: install its CustomResourceDefinition"
            )
        }
        error => in_words(error),
    }
}

/// Whether the server no longer knows the version to continue from.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

#[derive(Debug, Default)]
struct Failures {
    /// In a row.
    count: u32,
    last: Option<Instant>,
}

impl Failures {
    /// Counts a failure, and returns how long to wait after it.
    fn one_more(&mut self, now: Instant) -> Duration {
        if self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) > IN_A_ROW)
        {
            self.count = 0;
        }
        self.last = Some(now);
        let wait = FIRST_WAIT
            .saturating_mul(1 << self.count.min(16))
            .min(MAX_WAIT);
        self.count = self.count.saturating_add(1);
        wait
    }

    fn over(&mut self) {
        *self = Self::default();
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
struct Content {
    state: WatchState,
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

impl Content {
    fn new(watched: Watched) -> Self {
        Self {
            watched,
            found: 0,
            state: WatchState::default(),
            faults: BTreeMap::new(),
            undecodable: Undecodable::default(),
            complaints: 0,
        }
    }

    /// Converts a change to events, and keeps track of undecodable objects.
    fn events<K: Object>(&mut self, change: WatchAnswer<K>) -> Vec<Event<K>> {
        let mut mended = BTreeSet::new();
        let mut events = Vec::new();
        match change {
            WatchAnswer::Listed(listed) => {
                let keys = listed.objects.iter().map(ObjectKey::of);
                mended.extend(keys.filter(|key| self.undecodable.has(key)));
                events.push(self.synced(listed));
            }
            WatchAnswer::Applied(key, Ok(object)) => {
                if self.faults.remove(&key).is_some() {
                    info!(kind = %K::kind(&()), %key, "decodes again");
                }
                events.push(Event::Applied(object));
            }
            WatchAnswer::Applied(key, Err(fault)) => self.faulty::<K>(key, fault),
            WatchAnswer::Deleted(key) => {
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

    fn synced<K: Object>(&mut self, listed: Listed<K>) -> Event<K> {
        let faults_before = mem::take(&mut self.faults);
        self.complaints = 0;
        for (key, fault) in listed.faults {
            if faults_before.get(&key) == Some(&fault) {
                self.faults.insert(key, fault);
            } else {
                self.faulty::<K>(key, fault);
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

    fn lost<K: Object>(&mut self, reason: String) -> Option<Event<K>> {
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

    fn faulty<K: Object>(&mut self, key: ObjectKey, fault: String) {
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

mod list_watch;
#[cfg(test)]
mod tests;

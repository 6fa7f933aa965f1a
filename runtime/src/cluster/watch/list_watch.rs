//! A list, then a watch that begins at the list's version and continues where it ended or broke.
//!
//! kube's watcher does not fit, because it does not tell the version that it continues from. An etcd that was restored
//! from a backup is behind that version, and its API server then sends nothing.

use std::{collections::BTreeMap, mem, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use kube::{
    Client, Error,
    api::{ListParams, WatchEvent, WatchParams},
    core::{ObjectList, PartialObjectMeta, Request, Status},
};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{super::guarded::Guarded, Object, Watching};
use crate::store::{ObjectKey, Scope};

/// The requested duration of one watch, in seconds.
const WATCH_SECONDS: u32 = 50;

/// A watch that ends earlier than this ended unexpectedly. The server's clock may run a little faster.
const ORDINARY: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 1);

/// A connection without data for this long is closed.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// The number of objects in a page of a list; large objects have half a megabyte.
const PAGE: u32 = 100;

pub(super) struct ListWatch<K> {
    client: Client,
    requests: Request,
    watching: Watching,
    /// The version to continue from; `None` if a list comes next.
    version: Option<String>,
    /// Whether the server is known to have that version.
    is_checked: bool,
    watch: Option<Watch<K>>,
}

/// A running watch.
struct Watch<K> {
    asked: Instant,
    /// It had an error.
    broke: bool,
    /// It had an object or a bookmark, so the server has our version.
    heard: bool,
    stream: BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>,
}

/// An answer of the server.
pub(super) enum WatchAnswer<K> {
    Listed(Listed<K>),
    /// An object, or why it does not decode.
    Applied(ObjectKey, Result<K, String>),
    Deleted(ObjectKey),
}

/// All objects, and the errors of those that do not decode.
pub(super) struct Listed<K> {
    pub(super) objects: Vec<K>,
    pub(super) faults: BTreeMap<ObjectKey, String>,
}

impl<K: Object> ListWatch<K> {
    /// Begins with a list.
    pub(super) fn new(client: Client, watching: Watching) -> Self {
        let namespace = match &watching.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace.as_str()),
        };
        Self {
            client,
            requests: Request::new(K::url_path(&(), namespace)),
            watching,
            version: None,
            is_checked: false,
            watch: None,
        }
    }

    /// Begins with a list again.
    pub(super) fn restart(&mut self) {
        (self.version, self.watch) = (None, None);
    }

    /// Waits for the next change. After an error the watch continues where it was; a list starts over.
    pub(super) async fn next(&mut self) -> kube::Result<WatchAnswer<K>> {
        loop {
            let Some(version) = self.version.clone() else {
                return self.list().await.map(WatchAnswer::Listed);
            };
            let Some(watch) = &mut self.watch else {
                self.begin(&version).await?;
                continue;
            };
            let next = timeout(SILENCE, watch.stream.next()).await;
            let is_silent = next.is_err();
            let Some(next) = next.ok().flatten() else {
                // A watch that lasts its full time means nothing: a server without its etcd data also keeps it open.
                let is_ordinary = !watch.broke && watch.asked.elapsed() >= ORDINARY;
                self.is_checked = watch.heard && is_ordinary && !is_silent;
                self.watch = None;
                continue;
            };
            let next = next.and_then(|event| match event {
                WatchEvent::Error(status) => Err(Error::Api(status.boxed())),
                event => Ok(event),
            });
            watch.broke |= next.is_err();
            watch.heard |= next.is_ok();
            match next? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.version = Some(newer(object.version)?);
                    return Ok(WatchAnswer::Applied(object.key, object.decoded));
                }
                WatchEvent::Deleted(object) => {
                    self.version = Some(newer(object.version)?);
                    return Ok(WatchAnswer::Deleted(object.key));
                }
                WatchEvent::Bookmark(bookmark) => {
                    self.version = Some(bookmark.metadata.resource_version);
                }
                WatchEvent::Error(_) => {}
            }
        }
    }

    async fn list(&mut self) -> kube::Result<Listed<K>> {
        let mut page = self.list_params().limit(PAGE);
        let mut listed = Listed {
            objects: Vec::new(),
            faults: BTreeMap::new(),
        };
        loop {
            let request = self.requests.list(&page).map_err(Error::BuildRequest)?;
            let list: ObjectList<Guarded<K>> = self.client.request(request).await?;
            for object in list.items {
                match object.decoded {
                    Ok(decoded) => listed.objects.push(decoded),
                    Err(fault) => drop(listed.faults.insert(object.key, fault)),
                }
            }
            page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                self.version = Some(newer(list.metadata.resource_version)?);
                self.is_checked = true;
                return Ok(listed);
            }
        }
    }

    /// Begins a watch, or schedules a list.
    async fn begin(&mut self, version: &str) -> kube::Result<()> {
        // Stays false if the server does not answer.
        let is_checked = mem::take(&mut self.is_checked);
        if !is_checked && self.is_behind(version).await? {
            self.version = None;
            return Ok(());
        }
        let asked = Instant::now();
        let params = WatchParams {
            label_selector: self.watching.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let request = self.requests.watch(&params, version);
        let request = request.map_err(Error::BuildRequest)?;
        let stream = self.client.request_events(request).await?;
        self.watch = Some(Watch {
            asked,
            broke: false,
            heard: false,
            stream: stream.boxed(),
        });
        Ok(())
    }

    /// Whether the server does not have this version yet. That happens after a restore from a backup: a watch from the
    /// version would stay silent until as many writes happen again.
    ///
    /// The check requests one object only: when an API server restarts, the watches of all nodes come at once. A list
    /// without a version reads the newest state, whichever API server answers and however old its cache is.
    ///
    /// A restored server is not noticed if new writes already bring it past our version. Within seconds there are only
    /// a few writes.
    // Not `&self`: the stream of the watch is not `Sync`.
    async fn is_behind(&mut self, version: &str) -> kube::Result<bool> {
        let request = self.requests.list_metadata(&self.list_params().limit(1));
        let request = request.map_err(Error::BuildRequest)?;
        let list: ObjectList<PartialObjectMeta<K>> = self.client.request(request).await?;
        let newest = list.metadata.resource_version.unwrap_or_default();
        // Resource versions of one kind are growing numbers: Kubernetes promises it since 1.35, and etcd did so before.
        // Other versions cannot be compared.
        let (Ok(newest), Ok(version)) = (newest.parse::<u64>(), version.parse::<u64>()) else {
            return Ok(false);
        };
        if newest < version {
            warn!(
                kind = %K::kind(&()),
                "the cluster went back from version {version} to {newest}, as after a restore: listing everything again"
            );
        }
        Ok(newest < version)
    }

    fn list_params(&self) -> ListParams {
        ListParams {
            label_selector: self.watching.labels.clone(),
            ..ListParams::default()
        }
    }
}

/// The version to continue from.
fn newer(version: Option<String>) -> kube::Result<String> {
    let version = version.filter(|version| !version.is_empty());
    let missing = || Error::Api(Status::failure("the answer has no resourceVersion", "").boxed());
    version.ok_or_else(missing)
}

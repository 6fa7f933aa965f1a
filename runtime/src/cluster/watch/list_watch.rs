//! A list, then a watch that begins where the list was made, and is taken up again where it ended or broke.
//!
//! Not the watcher of kube, which does not tell where it goes on from: an etcd that was restored from a backup is behind that, and
//! its API server then sends nothing.

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

/// For how long one watch is asked for, in seconds.
const WATCH_SECONDS: u32 = 50;

/// A watch that ends before that ended for a reason of its own. The server's clock may run a little faster.
const ORDINARY: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 1);

/// A connection on which nothing arrived for so long is given up.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// How many objects a page of a list has: large ones have half a megabyte.
const PAGE: u32 = 100;

pub(super) struct ListWatch<K> {
    client: Client,
    requests: Request,
    watching: Watching,
    /// Where a watch goes on from; `None` if a list comes next.
    version: Option<String>,
    /// Whether the server is known to have that version.
    is_checked: bool,
    watch: Option<Watch<K>>,
}

/// A watch under way.
struct Watch<K> {
    asked: Instant,
    /// An error came on it.
    broke: bool,
    /// An object or a bookmark came on it: the server has our version.
    heard: bool,
    stream: BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>,
}

/// What the server says.
pub(super) enum Change<K> {
    Listed(Listed<K>),
    /// An object, or why it does not decode.
    Applied(ObjectKey, Result<K, String>),
    Deleted(ObjectKey),
}

/// All objects, and why others do not decode.
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

    /// Waits for the next change. After an error it goes on where it was, but for a list, which it makes anew.
    pub(super) async fn next(&mut self) -> kube::Result<Change<K>> {
        loop {
            let Some(version) = self.version.clone() else {
                return self.list().await.map(Change::Listed);
            };
            let Some(watch) = &mut self.watch else {
                self.begin(&version).await?;
                continue;
            };
            let next = timeout(SILENCE, watch.stream.next()).await;
            let is_silent = next.is_err();
            let Some(next) = next.ok().flatten() else {
                // A server that ends in order answers until then, even if it has lost its etcd.
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
                    return Ok(Change::Applied(object.key, object.decoded));
                }
                WatchEvent::Deleted(object) => {
                    self.version = Some(newer(object.version)?);
                    return Ok(Change::Deleted(object.key));
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

    /// Begins a watch, or has a list come next.
    async fn begin(&mut self, version: &str) -> kube::Result<()> {
        // Stays so if the server does not answer.
        let is_checked = mem::take(&mut self.is_checked);
        if !is_checked && self.is_behind(version).await? {
            self.version = None;
            return Ok(());
        }
        let asked = Instant::now();
        let params = WatchParams {
            label_selector: self.watching.labels.clone(),
            field_selector: self.watching.fields.clone(),
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

    /// Whether the server does not have this version yet: it was restored from a backup, and a watch from there would tell nothing
    /// until as much was written again.
    ///
    /// One object is asked for, not all: when an API server restarts, the watches of every node come at once. A list without a version
    /// is of the newest state, whichever API server answers and however old its cache is. A restored server that was written so much
    /// meanwhile that it is ahead of us again is not noticed; within seconds only a few writes are.
    // Not `&self`: the stream of the watch is not `Sync`.
    async fn is_behind(&mut self, version: &str) -> kube::Result<bool> {
        let request = self.requests.list_metadata(&self.list_params().limit(1));
        let request = request.map_err(Error::BuildRequest)?;
        let list: ObjectList<PartialObjectMeta<K>> = self.client.request(request).await?;
        let newest = list.metadata.resource_version.unwrap_or_default();
        // Versions of one kind are numbers that grow, which Kubernetes promises since 1.35 and etcd made them before. Of others nothing
        // can be said.
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
            field_selector: self.watching.fields.clone(),
            ..ListParams::default()
        }
    }
}

/// The version to go on from.
fn newer(version: Option<String>) -> kube::Result<String> {
    let version = version.filter(|version| !version.is_empty());
    let missing = || Error::Api(Status::failure("the answer has no resourceVersion", "").boxed());
    version.ok_or_else(missing)
}

//! A list, then a watch that begins where the list was made, and is taken up again where it ended or broke.
//!
//! Not the watcher of kube, which does not tell where it goes on from: an etcd that was restored from a backup is behind that, and
//! its API server then sends nothing.

use std::{collections::VecDeque, mem, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    runtime::watcher::{Error, Event},
};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{super::guarded::Guarded, AnyObject, Watching};

/// For how long one watch is asked for, in seconds.
const WATCH_SECONDS: u32 = 50;

/// A watch that ends before that ended for a reason of its own. The server's clock may run a little faster.
const ORDINARY: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 1);

/// A connection on which nothing arrived for so long is given up.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// How many objects a page of a list has: large ones have half a megabyte.
const PAGE: u32 = 100;

pub(super) struct ListWatch<K> {
    api: Api<Guarded<K>>,
    labels: Option<String>,
    fields: Option<String>,
    position: Position<Guarded<K>>,
}

/// What comes next.
enum Position<K> {
    List,
    Page {
        objects: VecDeque<K>,
        /// Where the list goes on.
        token: Option<String>,
        version: Option<String>,
    },
    /// A watch that goes on from that version, once the server was `checked` to have it.
    Watch {
        version: String,
        checked: bool,
    },
    Watching {
        version: String,
        asked: Instant,
        /// An error came on it.
        broke: bool,
        /// An object or a bookmark came on it: the server has our version.
        heard: bool,
        stream: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    },
}

impl<K: AnyObject> ListWatch<K> {
    /// Begins with a list.
    pub(super) fn new(api: Api<Guarded<K>>, watching: &Watching) -> Self {
        Self {
            api,
            labels: watching.labels.clone(),
            fields: watching.fields.clone(),
            position: Position::List,
        }
    }

    /// Begins with a list again.
    pub(super) fn restart(&mut self) {
        self.position = Position::List;
    }

    /// Waits for the next event. After an error it goes on where it was, but for a list, which it makes anew.
    pub(super) async fn next(&mut self) -> Result<Event<Guarded<K>>, Error> {
        loop {
            if let Some(event) = self.step().await? {
                return Ok(event);
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Event<Guarded<K>>>, Error> {
        match mem::replace(&mut self.position, Position::List) {
            Position::List => {
                self.position = Position::Page {
                    objects: VecDeque::new(),
                    token: None,
                    version: None,
                };
                Ok(Some(Event::Init))
            }
            Position::Page {
                mut objects,
                token,
                version,
            } => {
                if let Some(next) = objects.pop_front() {
                    self.position = Position::Page {
                        objects,
                        token,
                        version,
                    };
                    return Ok(Some(Event::InitApply(next)));
                }
                match version {
                    Some(version) if token.is_none() => {
                        let checked = true;
                        self.position = Position::Watch { version, checked };
                        Ok(Some(Event::InitDone))
                    }
                    _ => self.list_page(token).await.map(|()| None),
                }
            }
            Position::Watch { version, checked } => {
                // Stays there if the server does not answer.
                self.position = Position::Watch {
                    version: version.clone(),
                    checked: false,
                };
                if !checked && self.is_behind(&version).await? {
                    self.position = Position::List;
                    return Ok(None);
                }
                let asked = Instant::now();
                let stream = self.api.watch(&self.watch_params(), &version).await;
                self.position = Position::Watching {
                    version,
                    asked,
                    broke: false,
                    heard: false,
                    stream: stream.map_err(Error::WatchStartFailed)?.boxed(),
                };
                Ok(None)
            }
            Position::Watching {
                version,
                asked,
                broke,
                heard,
                mut stream,
            } => {
                let silent_or_next = timeout(SILENCE, stream.next()).await;
                let is_silent = silent_or_next.is_err();
                let Some(next) = silent_or_next.ok().flatten() else {
                    // A server that ends in order answers until then, even if it has lost its etcd.
                    let checked = heard && !broke && !is_silent && asked.elapsed() >= ORDINARY;
                    self.position = Position::Watch { version, checked };
                    return Ok(None);
                };
                let (version, result) = match next {
                    Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                        (newer(&object)?, Ok(Some(Event::Apply(object))))
                    }
                    Ok(WatchEvent::Deleted(object)) => {
                        (newer(&object)?, Ok(Some(Event::Delete(object))))
                    }
                    Ok(WatchEvent::Bookmark(bookmark)) => {
                        (bookmark.metadata.resource_version, Ok(None))
                    }
                    Ok(WatchEvent::Error(status)) => {
                        (version, Err(Error::WatchError(status.boxed())))
                    }
                    Err(error) => (version, Err(Error::WatchFailed(error))),
                };
                self.position = Position::Watching {
                    version,
                    asked,
                    broke: broke || result.is_err(),
                    heard: heard || result.is_ok(),
                    stream,
                };
                result
            }
        }
    }

    async fn list_page(&mut self, token: Option<String>) -> Result<(), Error> {
        let mut page = self.list_params().limit(PAGE);
        page.continue_token = token;
        let list = self.api.list(&page).await;
        let list = list.map_err(Error::InitialListFailed)?;
        let is_some = |text: &String| !text.is_empty();
        let version = list.metadata.resource_version.filter(is_some);
        let token = list.metadata.continue_.filter(is_some);
        if version.is_none() && token.is_none() {
            return Err(Error::NoResourceVersion);
        }
        self.position = Position::Page {
            objects: list.items.into(),
            token,
            version,
        };
        Ok(())
    }

    /// Whether the server does not have this version yet: it was restored from a backup, and a watch from there would tell nothing
    /// until as much was written again.
    ///
    /// One object is asked for, not all: when an API server restarts, the watches of every node come at once. A list without a version
    /// is of the newest state, whichever API server answers and however old its cache is. A restored server that was written so much
    /// meanwhile that it is ahead of us again is not noticed; within seconds only a few writes are.
    // Not `&self`: the stream of the watch is not `Sync`.
    async fn is_behind(&mut self, version: &str) -> Result<bool, Error> {
        let list = self.api.list_metadata(&self.list_params().limit(1)).await;
        let list = list.map_err(Error::WatchStartFailed)?;
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
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    fn watch_params(&self) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        }
    }
}

/// The version to go on from after a change of this object.
fn newer<K: AnyObject>(object: &Guarded<K>) -> Result<String, Error> {
    let version = object
        .resource_version()
        .filter(|version| !version.is_empty());
    version.ok_or(Error::NoResourceVersion)
}

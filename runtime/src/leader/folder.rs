//! The election of programs that share a folder.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, warn};

use super::{Heard, Holder, YIELD};
use crate::lock::Lock;

/// How often the lock is tried, and how often a held lock's file is checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// The lock of a folder.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The DNS servers that this replica receives, if that matters.
    pub(super) heard: Option<Heard>,
}

impl Folder {
    /// Takes the lock when it is free, and holds it, without end.
    pub(super) async fn contend(self, holder: &Holder) {
        let (mut said, mut was_held) = (false, false);
        // A standby that received every answer takes the lead before a process that has just started.
        sleep(2 * INTERVAL).await;
        loop {
            match self.blocking(Lock::try_acquire).await {
                // It takes the lead before one whose streams are not open yet, too.
                Ok(Some(lock)) if was_held && self.hears_nothing() => {
                    was_held = false;
                    drop(lock);
                    sleep(YIELD).await;
                    continue;
                }
                Ok(Some(lock)) => {
                    said = false;
                    holder.lead(None);
                    let reason = self.hold(lock).await;
                    holder.follow(&reason);
                }
                Ok(None) => was_held = true,
                Err(error) if said => debug!("{error}"),
                Err(error) => {
                    warn!("cannot take the lock for leader election: {error}");
                    said = true;
                }
            }
            sleep(INTERVAL).await;
        }
    }

    fn hears_nothing(&self) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard() == 0)
    }

    /// Holds the lock while its file is in place. Returns why it ended.
    async fn hold(&self, mut lock: Lock) -> String {
        loop {
            sleep(INTERVAL).await;
            let looked = self.blocking(move |path| {
                let is_in_place = lock.is_in_place(path)?;
                Ok((lock, is_in_place))
            });
            match looked.await {
                Ok((back, true)) => lock = back,
                Ok((_, false)) => return format!("{} was removed", self.path.display()),
                Err(error) => return error,
            }
        }
    }

    /// The file system may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let path = self.path.clone();
        let done = spawn_blocking(move || {
            work(&path).map_err(|error| format!("{}: {error}", path.display()))
        });
        done.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

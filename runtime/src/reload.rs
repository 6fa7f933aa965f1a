//! Files that are read again when they change: certificates and secrets that are renewed while the program runs.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use arc_swap::ArcSwap;
use metrics::counter;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{metrics::Label, tls::read};

/// How often the files are read. They are small, and comparing contents misses no change.
const INTERVAL: Duration = Duration::from_secs(1);

crate::metrics! {
    /// The metrics of files that are read again.
    pub const METRICS;

    counter RELOADS = "egress_file_reloads_total" [Label::one_of("what", &["certificate", "secret"]), Label::one_of("outcome", &["used", "refused"])]
        "Changes of files with certificates and secrets. `refused`: the file is not valid, and its last valid content stays in use";
}

/// The latest valid value of the files. Clones share it.
#[derive(Debug)]
pub struct Reloaded<T>(Arc<ArcSwap<T>>);

impl<T> Clone for Reloaded<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Reloaded<T> {
    /// The current value.
    pub fn load(&self) -> Arc<T> {
        self.0.load_full()
    }
}

/// Keeps a [`Reloaded`] up to date. It must be run.
pub struct Reloading<T> {
    what: &'static str,
    paths: Vec<PathBuf>,
    contents: Vec<Vec<u8>>,
    parse: Box<Parse<T>>,
    value: Reloaded<T>,
    /// Why the current files cannot be used.
    fault: Option<String>,
}

type Parse<T> = dyn Fn(&[Vec<u8>]) -> anyhow::Result<T> + Send + Sync;

impl<T> fmt::Debug for Reloading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the contents, which may be secret.
        f.debug_struct("Reloading")
            .field("what", &self.what)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Reloading<T> {
    /// Reads the files now. `parse` gets their contents, in the order of the paths; `what` names the value in the log
    /// and in metric labels.
    ///
    /// # Errors
    /// A file cannot be read, or `parse` refuses the contents.
    pub fn begin(
        what: &'static str,
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<(Reloaded<T>, Self)> {
        let contents = read_all(&paths)?;
        let value = Reloaded(Arc::new(ArcSwap::from_pointee(parse(&contents)?)));
        let reloading = Self {
            what,
            paths,
            contents,
            parse: Box::new(parse),
            value: value.clone(),
            fault: None,
        };
        Ok((value, reloading))
    }

    /// Reads the files once a second until the token is cancelled. Unusable files leave the value unchanged, and are
    /// counted and logged once.
    ///
    /// # Errors
    /// A thread that reads files failed.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            let paths = self.paths.clone();
            let contents = spawn_blocking(move || read_all(&paths))
                .await
                .context("a thread that reads files failed")?;
            self.take(contents);
        }
        Ok(())
    }

    fn take(&mut self, contents: anyhow::Result<Vec<Vec<u8>>>) {
        let parsed = match contents {
            Ok(contents) if contents == self.contents => {
                self.fault = None;
                return;
            }
            Ok(contents) => (self.parse)(&contents).map(|value| (value, contents)),
            Err(error) => Err(error),
        };
        match parsed {
            Ok((value, contents)) => {
                self.value.0.store(Arc::new(value));
                self.contents = contents;
                self.fault = None;
                self.count("used");
                info!(what = self.what, "the changed files are in use");
            }
            Err(error) => {
                let fault = format!("{error:#}");
                if self.fault.as_ref() != Some(&fault) {
                    self.count("refused");
                    warn!(
                        what = self.what,
                        error = fault,
                        "the changed files cannot be used: the last valid ones stay in use"
                    );
                    self.fault = Some(fault);
                }
            }
        }
    }

    fn count(&self, outcome: &'static str) {
        counter!(RELOADS, "what" => self.what, "outcome" => outcome).increment(1);
    }
}

fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Vec<u8>>> {
    paths.iter().map(|path| read(path)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::ensure;

    use super::*;

    fn text(contents: &[Vec<u8>]) -> anyhow::Result<String> {
        let text = String::from_utf8(contents.concat())?;
        ensure!(text != "bad", "it is bad");
        Ok(text)
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_used_and_a_bad_one_leaves_the_last_good_value() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        fs::write(&paths[0], "1").unwrap();
        assert!(Reloading::begin("x", paths.to_vec(), text).is_err());
        fs::write(&paths[1], "2").unwrap();
        let (value, mut reloading) = Reloading::begin("x", paths.to_vec(), text).unwrap();
        assert_eq!(*value.load(), "12");

        let mut look = || reloading.take(read_all(&paths));
        fs::write(&paths[1], "3").unwrap();
        look();
        assert_eq!(*value.load(), "13");
        fs::write(&paths[0], "b").unwrap();
        fs::write(&paths[1], "ad").unwrap();
        look();
        assert_eq!(*value.load(), "13");
        fs::remove_file(&paths[0]).unwrap();
        look();
        assert_eq!(*value.load(), "13");
        assert!(reloading.fault.as_ref().unwrap().contains("cannot read"));
        fs::write(&paths[0], "4").unwrap();
        fs::write(&paths[1], "2").unwrap();

        let token = CancellationToken::new();
        let task = tokio::spawn(reloading.run(token.clone()));
        while *value.load() != "42" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        token.cancel();
        task.await.unwrap().unwrap();
    }
}

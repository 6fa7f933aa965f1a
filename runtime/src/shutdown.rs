//! The tasks of a program, and its shutdown.

use std::{collections::HashMap, future::Future, io, panic::resume_unwind, thread, time::Duration};

use anyhow::{Context, anyhow};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::threads::run_alone;

/// How long tasks may take to end after the token was cancelled.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Owns every task of a program, so that no task is detached and no end goes unnoticed.
pub struct Tasks {
    tasks: JoinSet<anyhow::Result<()>>,
    names: HashMap<Id, &'static str>,
    token: CancellationToken,
    signals: io::Result<Signals>,
}

/// A second signal ended the program before its tasks were done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("ended at once by a second {signal}")]
pub struct Ended {
    signal: &'static str,
    number: u8,
}

impl Ended {
    /// The exit status of a program ended by a signal, as in a shell: 130 for SIGINT, 143 for SIGTERM.
    pub fn status(self) -> u8 {
        128 + self.number
    }
}

/// Once created, these signals no longer kill the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Ended {
        tokio::select! {
            _ = self.terminate.recv() => Ended { signal: "SIGTERM", number: 15 },
            _ = self.interrupt.recv() => Ended { signal: "SIGINT", number: 2 },
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// An empty set. From now on SIGTERM and SIGINT are handled by [`Tasks::run`]. Must be called within a tokio
    /// runtime.
    pub fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            names: HashMap::new(),
            token: CancellationToken::new(),
            signals: Signals::new(),
        }
    }

    /// The token that tells the tasks to end. Cancelling it ends the program in order, like SIGTERM.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Starts a task, which must run until the token is cancelled and then end within 5 s. `name` is used in errors.
    pub fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Like [`Tasks::spawn`], on a thread of its own: no other task can delay it, and it delays no other. It cannot be
    /// aborted, but ends with the process.
    pub fn spawn_alone(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let (running, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            let _running = running;
            run_alone(task)
        });
        self.spawn(name, async {
            let thread = thread?;
            // The other end is dropped with the thread, whether it returns or panics.
            let _closed = ended.await;
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => resume_unwind(panic),
            }
        });
    }

    /// Runs until SIGTERM, SIGINT or the token's cancellation, or until a task ends by itself. Then it cancels the
    /// token and waits for the tasks, at most 5 s. Slower tasks are aborted, with a warning that names them.
    ///
    /// # Errors
    /// The reason why a task ended early: an error, a panic, or a plain return. Otherwise the first error of a task
    /// during shutdown. [`Ended`] on a second signal, at once. An error if signal handlers cannot be installed.
    pub async fn run(self) -> anyhow::Result<()> {
        self.run_after(std::future::ready(())).await
    }

    /// [`Tasks::run`] with a step before the shutdown. After a signal the tasks continue until `before` has finished. It is
    /// skipped if anything but a signal ends the tasks.
    ///
    /// # Errors
    /// The errors of [`Tasks::run`].
    pub async fn run_after(mut self, before: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut signals = std::mem::replace(&mut self.signals, Err(io::Error::other("taken")))
            .context("cannot listen for signals")?;
        let ended = tokio::select! {
            biased;
            () = self.token.cancelled() => Ok(()),
            Ended { signal, .. } = signals.next() => {
                info!(signal, "shutting down");
                tokio::select! {
                    biased;
                    ended = signals.next() => return Err(ended.into()),
                    () = before => Ok(()),
                    () = self.token.cancelled() => Ok(()),
                    Some(ended) = self.tasks.join_next_with_id() => Err(self.early(ended)),
                }
            }
            Some(ended) = self.tasks.join_next_with_id() => Err(self.early(ended)),
        };
        self.token.cancel();
        let drained = self.drain(&mut signals).await;
        ended.and(drained)
    }

    /// The error of a task that ended by itself.
    fn early(&mut self, ended: Result<(Id, anyhow::Result<()>), JoinError>) -> anyhow::Error {
        let (name, result) = self.ended(ended);
        match result {
            Ok(()) => anyhow!("task {name} ended"),
            Err(error) => error,
        }
    }

    async fn drain(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let mut outcome = Ok(());
        loop {
            tokio::select! {
                ended = self.tasks.join_next_with_id() => match ended {
                    None => return outcome,
                    Some(ended) => {
                        let (_, result) = self.ended(ended);
                        if let Err(error) = &result {
                            error!("error during the shutdown: {error:#}");
                        }
                        outcome = outcome.and(result);
                    }
                },
                () = tokio::time::sleep_until(deadline) => {
                    let mut names: Vec<_> = self.names.values().copied().collect();
                    names.sort_unstable();
                    warn!(tasks = names.join(", "), "tasks did not end within 5 s and are aborted");
                    return outcome;
                }
                ended = signals.next() => return Err(ended.into()),
            }
        }
    }

    /// The name of a task that ended, and its result with the name.
    fn ended(
        &mut self,
        ended: Result<(Id, anyhow::Result<()>), JoinError>,
    ) -> (&'static str, anyhow::Result<()>) {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(anyhow!(in_words(error)))),
        };
        let name = self.names.remove(&id).unwrap_or("unknown");
        (name, result.with_context(|| format!("task {name}")))
    }
}

fn in_words(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => match panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
        {
            Some(message) => format!("panicked: {message}"),
            None => "panicked".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;

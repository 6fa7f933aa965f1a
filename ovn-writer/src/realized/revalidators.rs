//! Waits until the revalidators of `ovs-vswitchd` have looked at the datapath's cached flows.
//!
//! A packet that a pod was refused leaves a flow that drops its neighbours too. New rules do not change it: the
//! revalidators do, in a pass over all flows that starts when rules change. `revalidator/wait` answers at the end of the
//! current pass. It is the only command that this program sends to `ovs-vswitchd`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use ovsdb_replica::ControlSocket;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

/// The command.
const WAIT: &str = "revalidator/wait";

/// How long a pass may take.
const DEADLINE: Duration = Duration::from_secs(2);

/// A pass that ends within this time after the rules are in is so short that it hardly began before them.
const SHORT: Duration = Duration::from_millis(5);

/// The file with the process id, in the folder of the control socket.
const PID_FILE: &str = "ovs-vswitchd.pid";

/// The answers so far.
#[derive(Clone, Debug)]
struct Passed {
    answers: u64,
    /// The time of the last one, which is the end of a pass.
    at: Instant,
    /// Why there was no last answer.
    failure: Option<String>,
}

/// Asks for passes while a ticket waits.
pub(super) struct Revalidators {
    asked: mpsc::Sender<()>,
    passed: watch::Receiver<Passed>,
    task: AbortHandle,
}

/// The passes since a moment.
pub(super) struct Passes {
    asked: mpsc::Sender<()>,
    passed: watch::Receiver<Passed>,
    before: u64,
}

impl Revalidators {
    /// Those of the `ovs-vswitchd` with this control socket, or with the one in this folder.
    pub(super) fn new(path: PathBuf) -> Self {
        let (asked, questions) = mpsc::channel(1);
        let (sender, passed) = watch::channel(Passed {
            answers: 0,
            at: Instant::now(),
            failure: None,
        });
        let task = tokio::spawn(ask(path, questions, sender)).abort_handle();
        Self {
            asked,
            passed,
            task,
        }
    }

    /// Counts the passes that end from now on.
    pub(super) fn watch(&self) -> Passes {
        let mut passed = self.passed.clone();
        let before = passed.borrow_and_update().answers;
        let passes = Passes {
            asked: self.asked.clone(),
            passed,
            before,
        };
        passes.ask();
        passes
    }
}

impl Drop for Revalidators {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Passes {
    /// Waits for a pass that began after the rules were in, and returns its end. This began before that.
    ///
    /// The first pass is enough if it was short. A longer one may have begun earlier; the second one did not.
    pub(super) async fn since(mut self, rules: Instant) -> Result<Instant, String> {
        loop {
            let passed = self.passed.borrow_and_update().clone();
            match (passed.answers.saturating_sub(self.before), passed.failure) {
                (0, _) => {}
                (_, Some(failure)) => return Err(failure),
                (1, None) if passed.at > rules + SHORT => self.ask(),
                (_, None) => return Ok(passed.at.max(rules)),
            }
            if self.passed.changed().await.is_err() {
                return Err("the program ends".to_owned());
            }
        }
    }

    fn ask(&self) {
        // An earlier question that waits is enough.
        let _waits = self.asked.try_send(());
    }
}

/// Sends one command for each question, one after another.
async fn ask(path: PathBuf, mut questions: mpsc::Receiver<()>, passed: watch::Sender<Passed>) {
    while questions.recv().await.is_some() {
        let failure = wait(&path).await.err();
        passed.send_modify(|passed| {
            passed.answers += 1;
            passed.at = Instant::now();
            passed.failure = failure;
        });
    }
}

async fn wait(path: &Path) -> Result<(), String> {
    let socket = socket(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let words = |error| format!("ovs-vswitchd at {}: {error}", socket.display());
    let mut connection = ControlSocket::connect(&socket).await.map_err(words)?;
    let answer = connection.call(WAIT, &[], DEADLINE).await;
    answer.map(drop).map_err(words)
}

/// The socket, whose name in a folder has the process id.
fn socket(path: &Path) -> io::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let pid = fs::read_to_string(path.join(PID_FILE))?;
    Ok(path.join(format!("ovs-vswitchd.{}.ctl", pid.trim())))
}

#[cfg(test)]
mod tests;

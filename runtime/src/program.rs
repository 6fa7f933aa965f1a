//! Runs a program's future and maps its result to an exit status.

use std::{
    future::Future,
    io::{self, Write},
    process::ExitCode,
    thread::available_parallelism,
};

use crate::{shutdown::Ended, threads::with_threads};

/// An error of usage or configuration: exit status 2 instead of 1. It is found anywhere in the causes of an error.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The minimum number of threads: a task that computes for long must not delay one that answers a peer.
const THREADS: usize = 2;

/// Runs a program on a multi-threaded tokio runtime. An error is printed on stderr as one line, `name: error: its
/// cause: …`.
///
/// Returns 0 for success, 2 for a [`UsageError`], and 143 or 130 if a second signal [`Ended`] it. Any other error gives
/// 1. Pending blocking calls do not delay the exit.
pub fn run_program(name: &str, program: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let threads = available_parallelism().map_or(THREADS, |cores| cores.get().max(THREADS));
    let result = with_threads(threads)
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            let result = runtime.block_on(program);
            runtime.shutdown_background();
            result
        });
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let line = format!("{name}: {error:#}").replace(['\n', '\r'], " ");
    // If stderr is closed, the exit status still reports the error.
    let _closed = writeln!(io::stderr(), "{line}");
    ExitCode::from(status(&error))
}

fn status(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| cause.is::<UsageError>()) {
        return 2;
    }
    let ended = error.chain().find_map(|cause| cause.downcast_ref());
    ended.copied().map_or(1, Ended::status)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn the_status_tells_a_usage_error_from_others() {
        let usage = || anyhow::Error::from(UsageError("kube is not there yet".to_owned()));
        assert_eq!(status(&usage()), 2);
        assert_eq!(status(&usage().context("cannot open the store")), 2);
        assert_eq!(status(&anyhow!("the address is in use").context("x")), 1);
        let wrapped = Err::<(), _>(UsageError(String::new())).context("--store");
        assert_eq!(status(&wrapped.unwrap_err()), 2);
    }

    #[test]
    fn a_blocking_call_does_not_hold_the_end_up() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        run_program("x", async move {
            tokio::task::spawn_blocking(move || receiver.recv());
            Ok(())
        });
        // The call above returned while this sender, which the blocking call waits for, was still open.
        drop(sender);
    }
}

//! The tokio runtimes of the programs.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A busy thread polls the sockets after this many polls of tasks. tokio's default of 61 is for short polls: with a few
/// tasks that do much work in each poll, a new connection would wait for seconds.
const POLLS: u32 = 4;

/// Runs a future on this thread, which does nothing else meanwhile. Events wake this thread directly; with shared
/// threads, tasks are first handed over between them.
///
/// # Errors
/// The runtime cannot be created.
pub fn run_alone<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

/// A runtime with the settings of the programs.
///
/// # Errors
/// The system has no threads for it.
pub(crate) fn with_threads(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .event_interval(POLLS)
        .enable_all()
        .build()
}

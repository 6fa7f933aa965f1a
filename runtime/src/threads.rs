//! The runtimes of tokio that programs have.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::read_coalescing;

/// After so many polls of tasks a busy thread looks at the sockets. tokio's own 61 is for short polls: with a few tasks that have
/// much to do in each, a new connection would wait for seconds.
const POLLS: u32 = 4;

/// Runs a future on this thread, which does nothing else meanwhile. What the future waits for wakes this thread at once, where tasks
/// that share threads are handed from one to the other first.
///
/// # Errors
/// There can be no runtime.
pub fn run_alone<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

/// A runtime as programs have it.
///
/// # Errors
/// The system gives no threads for it.
pub fn with_threads(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .event_interval(POLLS)
        .on_thread_park(read_coalescing::before_park)
        .enable_all()
        .build()
}

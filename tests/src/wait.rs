//! Waits for a condition, never for a fixed time.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Enough for anything that should take at most 15 seconds, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` until it returns `Ok`, and returns the value. Its errors describe the current state.
///
/// # Panics
/// After [`PATIENCE`], with the last state.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, probe).await
}

/// [`eventually`] with another deadline.
///
/// # Panics
/// After the deadline, with the last state.
pub async fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + deadline;
    let mut last = "nothing was seen".to_owned();
    loop {
        // A hanging probe does not extend the deadline.
        match timeout(end.saturating_duration_since(Instant::now()), probe()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(state)) => last = state,
            Err(_) => panic!(
                "{what}: not within {deadline:?}, and the last look did not end; before: {last}"
            ),
        }
        if Instant::now() >= end {
            panic!("{what}: not within {deadline:?}; last: {last}");
        }
        sleep(PAUSE).await;
    }
}

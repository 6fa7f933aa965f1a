//! Tests with a long version.
//!
//! They are in modules called `soak`. Normally they take a few seconds. scripts/soak runs them with `SOAK=1`, for
//! minutes and in many rounds, and asserts the figures that the project promises, which a busy machine may miss.

use std::{env, time::Duration};

/// Whether this run is by scripts/soak.
pub fn is_long() -> bool {
    env::var_os("SOAK").is_some_and(|value| value == "1")
}

/// The value for ordinary tests, or for scripts/soak.
pub fn or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// The number of repetitions: 100 in scripts/soak, otherwise `short`. It is printed.
pub fn times(short: usize) -> usize {
    let times = or_long(short, 100);
    println!("{times} times in a row");
    times
}

/// Prints a measured time. Only scripts/soak asserts the limit: a machine that is busy with other tests misses it.
///
/// # Panics
/// In scripts/soak, if the time is not below the limit.
pub fn judge(what: &str, took: Duration, limit: Duration) {
    println!("{what}: {took:.2?}, to be below {limit:?}");
    assert!(!is_long() || took < limit, "{what}: {took:?}");
}

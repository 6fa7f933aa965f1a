//! Tests that have a long version.
//!
//! They stand in modules called `soak`. Ordinarily they take a few seconds; scripts/soak runs them with `SOAK=1`, for minutes
//! and in many rounds, and asserts the figures that the project promises, which a busy machine may miss.

use std::{env, time::Duration};

/// Whether this is scripts/soak.
pub fn is_long() -> bool {
    env::var_os("SOAK").is_some_and(|value| value == "1")
}

/// What the ordinary tests use, or what scripts/soak uses.
pub fn or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// A number from which the chances of a test follow. It is printed, and `SEED` sets it.
///
/// # Panics
/// If `SEED` is no number.
pub fn seed() -> u64 {
    let given = env::var("SEED").ok();
    let seed = given.map(|text| text.parse().expect("SEED is a number"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed}");
    seed
}

/// How often a test does something in a row: 100 times in scripts/soak, else so often. It is printed.
pub fn times(short: usize) -> usize {
    let times = or_long(short, 100);
    println!("{times} times in a row");
    times
}

/// Prints a time that was measured. Only scripts/soak asserts the limit: a machine that is busy with other tests misses it.
///
/// # Panics
/// In scripts/soak, if the time is not below the limit.
pub fn judge(what: &str, took: Duration, limit: Duration) {
    println!("{what}: {took:.2?}, to be below {limit:?}");
    assert!(!is_long() || took < limit, "{what}: {took:?}");
}

/// Prints the median, the 99th percentile and the largest of some delays, and returns the largest.
///
/// # Panics
/// If there are none.
pub fn print_delays(what: &str, mut delays: Vec<Duration>) -> Duration {
    delays.sort_unstable();
    let [median, late, max] = [50, 99, 100].map(|part| delays[(delays.len() - 1) * part / 100]);
    println!(
        "{what}: median {} ms, 99 % within {} ms, max {} ms, of {}",
        median.as_millis(),
        late.as_millis(),
        max.as_millis(),
        delays.len()
    );
    max
}

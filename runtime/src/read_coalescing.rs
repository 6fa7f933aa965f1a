//! Fewer wake-ups by a stream that flows fast, as network cards have fewer interrupts (interrupt coalescing).
//!
//! A sender that fills its buffer thousands of times a second would wake a thread each time, and each time take a processor from
//! somebody: on a node that is busy with DNS, from the DNS server. A thread that has nothing else to do then waits a moment before
//! it looks at its sockets again, and finds more there.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// For how long at most: what comes is late by half of it.
const LONGEST: Duration = Duration::from_millis(4);

/// A wait that would be shorter is none: the system's timers are not that exact, and who sends so fast waits for room.
const SHORTEST: Duration = Duration::from_millis(1);

/// Octets that are to come meanwhile, at most: the smallest buffer of a socket holds three times as many.
const PORTION: u128 = 48 << 10;

/// So many at once tell of a buffer that may have been full: its sender is not to be kept waiting.
const FULL: u64 = 64 << 10;

/// Octets that are to come in [`LONGEST`], at least: two writes and more are then one read.
const WORTH: u128 = 16 << 10;

thread_local! {
    /// Octets that were read on this thread since it last looked for more.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    /// When that was, and whether a wait was worth it.
    static LOOKED: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// So many octets of a stream that need not be answered were read on this thread.
pub fn received(octets: usize) {
    RECEIVED.set(RECEIVED.get() + octets as u64);
}

/// Waits before this thread looks at its sockets, if what it read says so for the second time on end: a sender that was held up for
/// once is not slow. To be called when there is nothing else to do ([`on_thread_park`](tokio::runtime::Builder::on_thread_park)).
pub fn before_park() {
    let octets = RECEIVED.take();
    if octets == 0 {
        return;
    }
    let now = Instant::now();
    let (looked, is_steady) = LOOKED.get().unwrap_or((now, false));
    let wait = wait(octets, now - looked);
    LOOKED.set(Some((now, wait.is_some())));
    if let Some(wait) = wait
        && is_steady
    {
        thread::sleep(wait);
    }
}

/// For how long, if so many octets came in the time that passed.
fn wait(octets: u64, passed: Duration) -> Option<Duration> {
    let in_time = |time: Duration| u128::from(octets) * time.as_nanos() / passed.as_nanos().max(1);
    if octets >= FULL || in_time(LONGEST) < WORTH || in_time(SHORTEST) > PORTION {
        return None;
    }
    let portion = passed.as_nanos() * PORTION / u128::from(octets);
    let portion = u64::try_from(portion).map_or(LONGEST, Duration::from_nanos);
    Some(portion.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_only_on_a_fast_stream_and_never_for_a_full_buffer() {
        let milli = Duration::from_millis(1);
        for (octets, expected) in [
            (0, None),
            (4_000, None),
            (5_000, Some(4 * milli)),
            (12_000, Some(4 * milli)),
            (24 << 10, Some(2 * milli)),
            (48 << 10, Some(milli)),
            (49 << 10, None),
            (u64::MAX, None),
        ] {
            assert_eq!(wait(octets, milli), expected, "{octets}");
        }
        // What comes after a pause says nothing of what comes next, and neither does no time at all.
        assert_eq!(wait(FULL, 10 * milli), None);
        assert_eq!(wait(FULL - 1, 1000 * milli), None);
        assert_eq!(wait(1, Duration::ZERO), None);
    }
}

//! Read coalescing: fewer wake-ups for a fast stream, like interrupt coalescing of network cards.
//!
//! A sender that fills its buffer thousands of times a second wakes a thread each time. Each wake-up takes CPU time
//! from other processes, on a busy DNS node from the DNS server. So an idle thread waits a moment before it polls its
//! sockets again, and then reads more at once.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// The longest wait; data are delayed by half of it on average.
const LONGEST: Duration = Duration::from_millis(4);

/// A shorter wait is skipped: the system's timers are too coarse, and a sender that fast waits for buffer space.
const SHORTEST: Duration = Duration::from_millis(1);

/// The octets that may arrive during a wait; the smallest socket buffer holds three times as many.
const PORTION: u128 = 48 << 10;

/// A read of this many octets may mean a full buffer; its sender must not wait.
const FULL: u64 = 64 << 10;

/// The octets that must be expected in [`LONGEST`], so that one read replaces two or more.
const WORTH: u128 = 16 << 10;

thread_local! {
    /// Octets read on this thread since its last poll.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
    /// The time of that poll, and whether a wait was worthwhile.
    static LOOKED: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// Records a read of octets from a stream that needs no answers.
pub fn received(octets: usize) {
    RECEIVED.set(RECEIVED.get() + octets as u64);
}

/// Waits before this thread polls its sockets, if its reads justify a wait for the second time in a row. A single burst
/// after a pause does not count. Call it when the thread is idle
/// ([`on_thread_park`](tokio::runtime::Builder::on_thread_park)).
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

/// The wait for this many octets in this time; `None` for no wait.
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
        // Data after a pause predict nothing, and neither does a duration of zero.
        assert_eq!(wait(FULL, 10 * milli), None);
        assert_eq!(wait(FULL - 1, 1000 * milli), None);
        assert_eq!(wait(1, Duration::ZERO), None);
    }
}

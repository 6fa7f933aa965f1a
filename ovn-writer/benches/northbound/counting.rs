//! Counts allocated memory, with glibc's overhead.

#![allow(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one counts and passes on"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
};

/// Enabled only while memory is measured: other threads would contend for the counter.
static ENABLED: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(kept(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-kept(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(kept(new_size) - kept(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

fn count(bytes: i64) {
    if ENABLED.load(Ordering::Relaxed) {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The size of an allocation on a 64-bit system: a word before it, a multiple of 16, and at least 32 bytes.
fn kept(size: usize) -> i64 {
    i64::try_from(((size + 8 + 15) & !15).max(32)).unwrap_or(i64::MAX)
}

/// The result of `make`, and how many bytes it holds.
pub(crate) fn measured<T>(make: impl FnOnce() -> T) -> (T, i64) {
    BYTES.store(0, Ordering::Relaxed);
    ENABLED.store(true, Ordering::Relaxed);
    let made = make();
    ENABLED.store(false, Ordering::Relaxed);
    (made, BYTES.load(Ordering::Relaxed))
}

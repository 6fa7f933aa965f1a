//! Streams through real sockets: from a dedicated writer, and from a stock CoreDNS under load.
//!
//! One run has several rounds in turn. The ratios matter, not the absolute values. `quick` makes it
//! short; `socket` and `coredns` run only that part.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod coredns;
mod discard;
mod socket;
#[path = "../traffic/mod.rs"]
mod traffic;

use std::{env, process::ExitCode};

/// A measured ratio, and its lower limit.
struct Ratio {
    what: &'static str,
    ratio: f64,
    least: f64,
}

fn main() -> ExitCode {
    let said = |word| env::args().any(|arg| arg == word);
    let quick = said("quick");
    let runtime = runtime::with_threads(2).unwrap();
    let mut ratios = Vec::new();
    if !said("coredns") {
        ratios.extend(runtime.block_on(socket::measure(quick)));
    }
    if !said("socket") {
        ratios.extend(runtime.block_on(coredns::measure(quick)));
    }
    println!("\n{:<64} {:>7} {:>9}", "ratio", "is", "at least");
    let mut missed = 0;
    for Ratio { what, ratio, least } in ratios {
        let is_less = ratio < least;
        missed += u32::from(is_less);
        let mark = if is_less { "  MISSED" } else { "" };
        println!("{what:<64} {ratio:>7.2} {least:>9.2}{mark}");
    }
    if missed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The middle value.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The processor time of a process in nanoseconds, without the threads with these ids (schedstat of
/// proc(5)).
fn cpu_time(process: &str, without: &[String]) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_task = |id: String| {
        let text = std::fs::read_to_string(format!("/proc/{process}/task/{id}/schedstat"));
        let text = text.unwrap_or_default();
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks
        .map(|task| task.unwrap().file_name().into_string().unwrap())
        .filter(|id| !without.contains(id))
        .filter_map(of_task)
        .sum()
}

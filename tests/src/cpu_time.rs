//! The processor time of processes and threads (proc(5)).

use std::{fs, time::Duration};

use rustix::thread::gettid;

/// The clock ticks a second of `/proc/PID/stat`; the same on every Linux.
const TICKS: u32 = 100;

/// The time of a process with its ended threads, in steps of 10 ms.
///
/// # Panics
/// If it does not run.
pub fn of_process(pid: u32) -> Duration {
    let [user, system, ..] = stat(&pid.to_string());
    user + system
}

/// The time of ended children that this process has waited for, in steps of 10 ms.
pub fn of_ended_children() -> Duration {
    let [.., user, system] = stat("self");
    user + system
}

/// The time of the threads that a process has now, exact.
pub fn of_threads(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process that runs");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
    ids.map(|id| of_task(&pid.to_string(), &id)).sum()
}

/// The id of the calling thread, for [`of_thread`].
pub fn this_thread() -> String {
    gettid().as_raw_nonzero().to_string()
}

/// The time of a thread of this process, exact.
pub fn of_thread(id: &str) -> Duration {
    of_task("self", id)
}

/// 0 for a thread that has ended.
fn of_task(pid: &str, id: &str) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{id}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// utime, stime, cutime and cstime.
fn stat(pid: &str) -> [Duration; 4] {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process that runs");
    // The second field is the name, in parentheses, with any characters.
    let (_, fields) = text.rsplit_once(") ").expect("the name");
    let fields: Vec<&str> = fields.split(' ').collect();
    std::array::from_fn(|at| {
        let ticks: u32 = fields[11 + at].parse().expect("clock ticks");
        Duration::from_secs(1) * ticks / TICKS
    })
}

//! Tests that cannot run on this machine.
//!
//! Rust's test harness cannot skip a running test: one that returns early has passed. [`or_skip`] also writes the
//! test's name and the reason to the file that `SKIPPED_TESTS` names. scripts/test sets it, counts these tests as
//! skipped and shows them. With `cargo test` alone they show with `--show-output`.
//!
//! [`or_skip`]: crate::or_skip

use std::{env, fs::OpenOptions, io::Write, path::Path, process::Command, thread};

/// The value of a `Result`. An error is the reason why the test cannot run: it ends, and counts as skipped.
#[macro_export]
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => {
                $crate::skip::record(reason.as_ref());
                return;
            }
        }
    };
}

/// Checks a requirement on the machine: this command must succeed.
///
/// # Errors
/// The command and its output, if it fails or cannot be started.
pub fn needs(words: &[&str]) -> Result<(), String> {
    let failed = |reason: &str| Err(format!("`{}`: {}", words.join(" "), reason.trim()));
    match Command::new(words[0]).args(&words[1..]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => failed(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => failed(&error.to_string()),
    }
}

/// Counts the test of this thread as skipped; [`or_skip`](crate::or_skip) also ends it.
///
/// # Panics
/// If the file cannot be written.
pub fn record(reason: &str) {
    let program = env::current_exe().expect("the path of this program");
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    // target/debug/deps/NAME-HASH
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let thread = thread::current();
    let line = line(program, thread.name().unwrap_or("unknown"), reason);
    eprint!("{line}");
    if let Some(file) = env::var_os("SKIPPED_TESTS") {
        append(Path::new(&file), &line);
    }
}

fn line(program: &str, test: &str, reason: &str) -> String {
    format!("skipped: {program} {test}: {}\n", reason.replace('\n', " "))
}

/// In a single write, since other tests write at the same time.
fn append(file: &Path, line: &str) {
    let file = OpenOptions::new().append(true).create(true).open(file);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the file of the skipped tests");
}

//! The demo of scripts/demo: the whole path from a DNS answer to an address set or a policy, on this machine, with real servers.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people, which ends at the first thing that does not work"
)]

mod people;
mod policies;
mod stage;
mod tour;

use std::{env, process::ExitCode};

use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    task::{LocalSet, spawn_local},
};

const USAGE: &str = "\
usage: scripts/demo [--policies] [--keep]
  --policies: NetworkPolicies from names, without OVN
  --keep: run on until Ctrl-C, and say what to try";

// One thread: the servers end with the thread that started them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (mut keep, mut policies) = (false, false);
    for arg in env::args().skip(1) {
        match arg.as_str() {
            "--keep" => keep = true,
            "--policies" => policies = true,
            "-h" | "--help" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let ended = until_end_or_signal(policies, keep);
    LocalSet::new().run_until(ended).await
}

async fn until_end_or_signal(policies: bool, keep: bool) -> ExitCode {
    let mut tour = match policies {
        true => spawn_local(policies::run(keep)),
        false => spawn_local(tour::run(keep)),
    };
    select! {
        ended = &mut tour => {
            if ended.is_ok() {
                return ExitCode::SUCCESS;
            }
            eprintln!("\nThe demo failed; above are the cause and the ends of the logs.");
            return ExitCode::FAILURE;
        }
        () = a_signal() => {}
    }
    // All its processes end with it.
    tour.abort();
    let _ = tour.await;
    println!("\nEnded: no process and no file is left.");
    // Ctrl-C is the regular end of `--keep`.
    if keep {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(130)
    }
}

async fn a_signal() {
    let [mut interrupt, mut terminate] = [SignalKind::interrupt(), SignalKind::terminate()]
        .map(|kind| signal(kind).expect("signals can be caught"));
    select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

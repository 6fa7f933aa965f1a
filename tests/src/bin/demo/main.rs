//! The demo of scripts/demo: the whole path from a DNS answer to an address set, on this machine, with real servers.

mod people;
mod stage;
mod tour;

use std::{env, process::ExitCode};

use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    task::{LocalSet, spawn_local},
};

const USAGE: &str = "\
usage: scripts/demo [--keep]
  --keep: run on until Ctrl-C, and say what to try";

// One thread: the servers end with the thread that started them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut keep = false;
    for arg in env::args().skip(1) {
        match arg.as_str() {
            "--keep" => keep = true,
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
    let ended = until_end_or_signal(keep);
    LocalSet::new().run_until(ended).await
}

async fn until_end_or_signal(keep: bool) -> ExitCode {
    let mut tour = spawn_local(tour::run(keep));
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

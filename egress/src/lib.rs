//! The command for people: does it work, what is known, and why.
//!
//! - [`args`]: the command line.
//! - `targets`: the running programs, at local sockets or in the pods of a cluster.
//! - `check`: whether the whole chain works.
//! - `connectivity`: connections of a pod, as a test.
//! - `explain`, `verify`: questions to them. `list`: all addresses. `watch`: new ones, as they come.
//! - `capture`: the events that a collector reads.
//! - `hold`: the switch of the forwarder.
//! - `learn`: the names that clients ask for, as rules, and what rules do with them.
//! - `corefile`: Corefiles of CoreDNS servers that should stream.
//! - `manual`: man pages and completions.

pub mod args;
mod capture;
mod check;
mod connectivity;
mod corefile;
mod explain;
mod hold;
mod learn;
mod list;
mod manual;
mod nodes;
mod objects;
mod output;
mod pattern;
mod targets;
mod verify;
mod watch;

use std::process::ExitCode;

use runtime::run_program;

use self::{
    args::{Action, Cli, PREFIX},
    output::with_progress,
};

/// The name of the program, and of its field manager.
const PROGRAM: &str = "egress";

/// The program: one command. Exit status 0: all is well. 1: a fault, or an address that is not there. 2: unknown, or wrong arguments.
pub fn main() -> ExitCode {
    let cli: Cli = runtime::args::parse(PREFIX, "");
    let mut is_good = true;
    let ended = run_program(PROGRAM, async {
        is_good = match cli.action {
            Action::Check(args) => with_progress(check::run(*args)).await?,
            Action::List(args) => with_progress(list::run(*args)).await?,
            Action::Explain(args) => with_progress(explain::run(*args)).await?,
            Action::Watch(args) => watch::run(*args).await?,
            Action::Verify(args) => with_progress(verify::run(*args)).await?,
            Action::Corefile(args) => corefile::run(*args).await?,
            Action::Learn(args) => learn::run(*args).await?,
            Action::Hold(args) => hold::run(*args).await.map(|()| true)?,
            Action::Capture(args) => capture::run(*args).await.map(|()| true)?,
            Action::Test(args) => with_progress(connectivity::run(*args)).await?,
            Action::Connect(args) => connectivity::connect::run(args).await.map(|()| true)?,
            Action::Completion(args) => manual::completion(args.shell).map(|()| true)?,
            Action::Man(args) => manual::man(&args.folder).map(|()| true)?,
            Action::Version => {
                output::line(&format!("{PROGRAM} {}", runtime::VERSION)).map(|()| true)?
            }
        };
        Ok(())
    });
    match ended {
        ExitCode::SUCCESS if !is_good => ExitCode::FAILURE,
        ended => ended,
    }
}

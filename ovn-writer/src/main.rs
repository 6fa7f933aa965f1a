//! The program `ovn-writer`.

use std::process::ExitCode;

use ovn_writer::{ADMIN, Cli, PREFIX, run, run_allow_empty};

fn main() -> ExitCode {
    match runtime::args::parse(PREFIX, ADMIN) {
        Cli::Run(args) => runtime::run_program("ovn-writer", run(*args)),
        Cli::AllowEmpty(args) => runtime::run_program("ovn-writer", run_allow_empty(*args)),
    }
}

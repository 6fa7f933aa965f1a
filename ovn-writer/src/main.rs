//! The program `ovn-writer`.

use std::process::ExitCode;

use ovn_writer::{ADMIN, PREFIX, run};

fn main() -> ExitCode {
    runtime::run_program("ovn-writer", run(runtime::args::parse(PREFIX, ADMIN)))
}

//! The program `ovn-writer`.

use std::process::ExitCode;

use ovn_writer::{ADMIN, Args, PREFIX, run};

fn main() -> ExitCode {
    let args: Args = runtime::args::parse(PREFIX, ADMIN);
    runtime::run_program("ovn-writer", run(args))
}

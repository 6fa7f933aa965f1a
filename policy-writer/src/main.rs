//! The program `policy-writer`.

use std::process::ExitCode;

use policy_writer::{ADMIN, Args, PREFIX, PROGRAM, run};

fn main() -> ExitCode {
    let args: Args = runtime::args::parse(PREFIX, ADMIN);
    runtime::run_program(PROGRAM, run(args))
}

//! The collector's process.

use std::process::ExitCode;

use collector::args::{ADMIN, Cli, PREFIX};

fn main() -> ExitCode {
    let Cli(args) = runtime::args::parse(PREFIX, ADMIN);
    runtime::telemetry::init_logging(args.common.log_format);
    runtime::run_program("collector", collector::run(*args))
}

//! The collector's process.

use std::process::ExitCode;

use collector::args::Args;

fn main() -> ExitCode {
    let args: Args = runtime::args::parse("COLLECTOR", "127.0.0.1:9090");
    runtime::telemetry::init_logging(args.common.log_format);
    runtime::run_program("collector", collector::run(args))
}

//! The collector's process.

use std::process::ExitCode;

use collector::args::{ADMIN, Cli, PREFIX};
use runtime::inspect::client;

fn main() -> ExitCode {
    match runtime::args::parse(PREFIX, ADMIN) {
        Cli::Run(args) => {
            runtime::telemetry::init_logging(args.common.log_format);
            runtime::run_program("collector", collector::run(*args))
        }
        Cli::Replay(args) => runtime::run_program("collector", collector::replay::run(*args)),
        Cli::Corefile(args) => {
            let mut is_right = true;
            let ended = runtime::run_program("collector", async {
                is_right = collector::corefile::run(*args)?;
                Ok(())
            });
            if is_right { ended } else { ExitCode::FAILURE }
        }
        Cli::Explain(args) => client::run_explain("collector", &args),
        Cli::Capture(args) => runtime::run_program("collector", collector::capture::run(*args)),
    }
}

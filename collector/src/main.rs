//! The collector's process.

use std::process::ExitCode;

use collector::args::{Cli, Format};
use runtime::inspect::client::{self, Ask};

fn main() -> ExitCode {
    match runtime::args::parse("COLLECTOR", "127.0.0.1:9090") {
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
        Cli::Explain(args) => {
            let mut is_there = false;
            let ended = runtime::run_program("collector", async {
                let ask = Ask {
                    program: "collector",
                    inspect: &args.inspect,
                    about: &args.about,
                    namespace: args.namespace.as_deref(),
                    json: args.output == Format::Json,
                };
                is_there = client::explain(ask).await?;
                Ok(())
            });
            match ended {
                ExitCode::SUCCESS if !is_there => ExitCode::FAILURE,
                ended => ended,
            }
        }
        Cli::Capture(args) => runtime::run_program("collector", collector::capture::run(*args)),
    }
}

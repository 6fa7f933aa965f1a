//! The program `ovn-writer`.

use std::process::ExitCode;

use ovn_writer::{ADMIN, Cli, PREFIX, run, run_allow_empty, run_verify};

fn main() -> ExitCode {
    match runtime::args::parse(PREFIX, ADMIN) {
        Cli::Run(args) => runtime::run_program("ovn-writer", run(*args)),
        Cli::Explain(args) => runtime::inspect::client::run_explain("ovn-writer", &args),
        Cli::AllowEmpty(args) => runtime::run_program("ovn-writer", run_allow_empty(*args)),
        Cli::Verify(args) => {
            let mut differ = false;
            let ended = runtime::run_program("ovn-writer", async {
                differ = !run_verify(*args).await?;
                Ok(())
            });
            if differ { ExitCode::FAILURE } else { ended }
        }
    }
}

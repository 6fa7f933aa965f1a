//! The program `egress`. Under the name `kubectl-egress` it is a plugin of kubectl.

use std::process::ExitCode;

use egress::args::{Cli, PREFIX};

fn main() -> ExitCode {
    egress::run(runtime::args::parse::<Cli>(PREFIX, ""))
}

//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    capture::CaptureArgs,
    check::CheckArgs,
    connectivity::{TestArgs, connect::ConnectArgs},
    corefile::args::CorefileArgs,
    explain::ExplainArgs,
    hold::HoldArgs,
    learn::LearnArgs,
    list::ListArgs,
    verify::VerifyArgs,
    watch::WatchArgs,
};

/// The prefix of the environment variables.
pub const PREFIX: &str = "EGRESS";

/// Shows whether egress by name works, which addresses are known, and why.
///
/// In a cluster the command finds the programs by the labels of their pods, and reads their state by port-forward. Outside of one,
/// `--collector`, `--ovn-writer` and `--policy-writer` name their sockets.
#[derive(Clone, Debug, Parser)]
#[command(name = "egress", version = runtime::VERSION, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub action: Action,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    Check(Box<CheckArgs>),
    Test(Box<TestArgs>),
    List(Box<ListArgs>),
    Explain(Box<ExplainArgs>),
    Watch(Box<WatchArgs>),
    Verify(Box<VerifyArgs>),
    Learn(Box<LearnArgs>),
    Corefile(Box<CorefileArgs>),
    Hold(Box<HoldArgs>),
    Capture(Box<CaptureArgs>),
    Completion(CompletionArgs),
    Man(ManArgs),
    #[command(hide = true)]
    Connect(ConnectArgs),
    /// Prints the version.
    Version,
}

/// Prints the completions of a shell, such as `source <(egress completion bash)`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Writes the man pages into a folder.
#[derive(Clone, Debug, clap::Args)]
pub struct ManArgs {
    /// The folder, such as `/usr/local/share/man/man1`.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests;

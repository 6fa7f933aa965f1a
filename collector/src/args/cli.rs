//! The command line, of which `-h` shows a part.

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use runtime::args::hide_others_in_short_help;

use super::Args;

/// The command line.
#[derive(Clone, Debug)]
pub struct Cli(pub Box<Args>);

/// The flags that `-h` shows; `--help` shows all.
const EVERYDAY: [&str; 16] = [
    "store",
    "objects-namespace",
    "admin",
    "listen",
    "certificate",
    "private-key",
    "allow-peer",
    "secret-file",
    "min-ttl",
    "grace",
    "retain",
    "deny-answer",
    "resolver",
    "peer-service",
    "flush-probe",
    "inspect",
];

impl CommandFactory for Cli {
    fn command() -> Command {
        hide_others_in_short_help(Args::command(), &EVERYDAY)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Args::from_arg_matches(matches).map(|args| Self(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Parser for Cli {}

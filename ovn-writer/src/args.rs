//! What the program is told.

mod northbound;
mod sets;

use std::time::Duration;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use runtime::{
    args::{CommonArgs, StoreAddress, parse_duration, parse_namespace},
    inspect::client::ExplainArgs,
    listen::{ListenAddress, parse_local},
};

pub use self::{northbound::NorthboundArgs, sets::SetsArgs};
use crate::{
    control::{AllowEmptyArgs, parse_control},
    report::Format,
};

/// The prefix of the environment variables.
pub const PREFIX: &str = "OVN_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9091";

/// Where `ovn-writer explain` looks for a running ovn-writer, if nobody says.
const INSPECT: &str = "tcp://127.0.0.1:9093";

/// Writes the addresses of DNSNameResolver objects into the address sets of OVN's northbound database.
#[derive(Clone, Debug, Parser)]
#[command(name = "ovn-writer", version = runtime::VERSION)]
pub struct Args {
    /// What both programs are told.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where the database is, and how to connect to it.
    #[command(flatten)]
    pub northbound: NorthboundArgs,

    /// What the address sets are to be.
    #[command(flatten)]
    pub sets: SetsArgs,

    /// Write nothing; say on stdout which addresses would be opened and closed, at the start and whenever that changes
    #[arg(long)]
    pub dry_run: bool,

    /// How --dry-run says it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    /// Write only while no other replica does: for several writers of one database. By the Lease `ovn-writer` in the namespace of
    /// the objects, or a lock in the folder
    #[arg(long)]
    pub leader_elect: bool,

    /// Where to answer `ovn-writer explain`, and show its answers and the address sets as pages: `unix:///run/inspect.sock` or
    /// `tcp://127.0.0.1:9093`. It tells every tenant's names, so no other host can reach it. Default: nowhere
    #[arg(long, value_name = "URL", value_parser = parse_local)]
    pub inspect: Option<ListenAddress>,

    /// Where to answer `ovn-writer allow-empty`: `unix:///run/control.sock`, which only the user of this process can open. Default:
    /// nowhere
    #[arg(long, value_name = "URL", value_parser = parse_control)]
    pub control: Option<ListenAddress>,
}

/// Compares store and database once and prints the differences; exits 1 if there are any, 2 if either cannot be read or the
/// differences cannot be printed.
#[derive(Clone, Debug, Parser)]
#[command(name = "verify")]
pub struct VerifyArgs {
    /// Where the objects are: `dir:PATH` (YAML files in a folder) or `kube` (the Kubernetes API server)
    #[arg(long, value_name = "ADDRESS")]
    pub store: StoreAddress,

    /// The namespace of the DNSNameResolver objects
    #[arg(long, value_name = "NAMESPACE", default_value = "ovn-kubernetes", value_parser = parse_namespace)]
    pub objects_namespace: String,

    /// Where the database is, and how to connect to it.
    #[command(flatten)]
    pub northbound: NorthboundArgs,

    /// What the address sets are to be.
    #[command(flatten)]
    pub sets: SetsArgs,

    /// How the differences are printed
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    /// How long both sides may take to be read
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
}

/// What the program is to do.
#[derive(Clone, Debug)]
pub enum Cli {
    /// Write, or say what would be written, without end.
    Run(Box<Args>),
    /// Compare once.
    Verify(Box<VerifyArgs>),
    /// Say why something is in a set, or is not.
    Explain(Box<ExplainArgs>),
    /// Permit a running writer to empty what is absent.
    AllowEmpty(Box<AllowEmptyArgs>),
}

impl CommandFactory for Cli {
    fn command() -> Command {
        Args::command()
            .subcommand(VerifyArgs::command())
            .subcommand(ExplainArgs::command_with(INSPECT))
            .subcommand(AllowEmptyArgs::command())
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some(("explain", matches)) => {
                ExplainArgs::from_arg_matches(matches).map(|args| Self::Explain(Box::new(args)))
            }
            Some(("allow-empty", matches)) => AllowEmptyArgs::from_arg_matches(matches)
                .map(|args| Self::AllowEmpty(Box::new(args))),
            Some((_, matches)) => {
                VerifyArgs::from_arg_matches(matches).map(|args| Self::Verify(Box::new(args)))
            }
            None => Args::from_arg_matches(matches).map(|args| Self::Run(Box::new(args))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Parser for Cli {}

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;

    fn parsed(args: &[&str], variables: &[(&str, &str)]) -> Result<Cli, String> {
        let args = [&["ovn-writer"], args].concat();
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        };
        try_parse_from(PREFIX, ADMIN, args, variable)
            .map_err(|error| format!("{}: {error}", error.exit_code()))
    }

    #[test]
    fn without_a_subcommand_it_writes() {
        let args = [
            "--store",
            "dir:x",
            "--leader-elect",
            "--dry-run",
            "-o",
            "json",
        ];
        match parsed(&args, &[]).unwrap() {
            Cli::Run(args) => {
                assert!(args.leader_elect && args.dry_run && args.output == Format::Json);
            }
            other => panic!("{other:?}"),
        }
        let error = parsed(&[], &[]).unwrap_err();
        assert!(
            error.starts_with("2: ") && error.contains("--store"),
            "{error}"
        );
    }

    #[test]
    fn an_explanation_comes_from_where_it_is_asked_for() {
        let args = ["explain", "www.example.com", "--inspect=unix:///run/x"];
        let variables = [("OVN_WRITER_INSPECT", "unix:///run/y")];
        for (args, variables, inspect) in [
            (&args[..], &variables[..], "unix:///run/x"),
            (&args[..2], &variables, "unix:///run/y"),
            (&args[..2], &[], INSPECT),
        ] {
            match parsed(args, variables).unwrap() {
                Cli::Explain(args) => assert_eq!(args.inspect.to_string(), inspect),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn verify_has_flags_and_variables_of_its_own() {
        let variables = [("OVN_WRITER_STORE", "dir:y"), ("OVN_WRITER_NB", "tcp:a:1")];
        for (args, variables, store) in [
            (
                &["verify", "--store=dir:x", "--nb=tcp:a:1"][..],
                &[][..],
                "dir:x",
            ),
            (&["verify"], &variables, "dir:y"),
            (&["verify", "--store=dir:x"], &variables, "dir:x"),
        ] {
            match parsed(args, variables).unwrap() {
                Cli::Verify(args) => {
                    assert_eq!(args.store.to_string(), store);
                    assert_eq!(args.northbound.nb.to_string(), "tcp:a:1");
                    assert_eq!(
                        (args.output, args.timeout),
                        (Format::Text, Duration::from_secs(10))
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        for (args, words) in [
            (&["verify"][..], "--store"),
            (&["verify", "--store=dir:x", "--dry-run"], "--dry-run"),
            (
                &["verify", "--store=dir:x", "-o", "yaml"],
                "possible values: text, json",
            ),
            (&["--store=dir:x", "verify"], "verify"),
            (&["compare"], "compare"),
        ] {
            let error = parsed(args, &[]).unwrap_err();
            assert!(
                error.starts_with("2: ") && error.contains(words),
                "{args:?}: {error}"
            );
        }
    }
}

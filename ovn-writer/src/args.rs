//! The command line.

mod northbound;
mod realized;
mod sets;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use runtime::{
    UsageError,
    args::{CommonArgs, headings, hide_others_in_short_help, parse_time},
    clock::Timestamp,
    listen::{ListenAddress, parse_local},
};

use self::sets::permission_end;
pub use self::{northbound::NorthboundArgs, realized::RealizedArgs, sets::SetsArgs};
use crate::{
    control::{AllowEmptyArgs, parse_control},
    report::Format,
    sync::Policy,
};

/// The prefix of the environment variables.
pub const PREFIX: &str = "OVN_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9091";

const NORTHBOUND: &str = "Northbound database";
const WRITES: &str = "Writes";
const REALIZED: &str = "Realized changes";
const ADDRESS_SETS: &str = "Address sets";

/// The flags that `-h` shows; `--help` shows all.
const EVERYDAY: [&str; 17] = [
    "store",
    "objects-namespace",
    "admin",
    "log-format",
    "inspect",
    "nb",
    "private-key",
    "certificate",
    "ca-cert",
    "leader-elect",
    "dry-run",
    "create-sets",
    "managed-by-ovn-kubernetes",
    "cluster-cidr",
    "deny-answer",
    "absent-after",
    "control",
];

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  In a cluster:          ovn-writer --store kube --nb unix:/run/ovn/ovnnb_db.sock --inspect tcp://127.0.0.1:9093
  Without Kubernetes:    ovn-writer --store dir:/var/lib/egress --nb unix:/run/ovn/ovnnb_db.sock
  Write nothing:         ovn-writer --store kube --dry-run
  Ask a running one:     egress explain www.example.com";

/// Writes the addresses of DNSNameResolver objects into the address sets of OVN's northbound database.
#[derive(Clone, Debug, Parser)]
#[command(name = "ovn-writer", version = runtime::VERSION, after_help = EXAMPLES)]
pub struct Args {
    /// The flags of both programs.
    #[command(flatten)]
    pub common: CommonArgs,

    /// The URL where the ovn-writer shows its state as pages.
    ///
    /// `unix:///run/inspect.sock`, or `tcp://` with a loopback address, such as `tcp://127.0.0.1:9093`. The state has the names of all
    /// tenants, so other hosts cannot reach it. The program `egress` reads it. Default: none.
    #[arg(long, value_name = "URL", value_parser = parse_local, help_heading = headings::OBSERVABILITY)]
    pub inspect: Option<ListenAddress>,

    /// The database, and how to connect to it.
    #[command(flatten, next_help_heading = NORTHBOUND)]
    pub northbound: NorthboundArgs,

    /// Write nothing, and print the addresses that would be opened and closed.
    ///
    /// The ovn-writer prints them to stdout at the start and whenever they change.
    #[arg(long, help_heading = WRITES)]
    pub dry_run: bool,

    /// The format of the output of `--dry-run`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t, help_heading = WRITES)]
    pub output: Format,

    /// Write only while no other replica writes, for several ovn-writers of one database.
    ///
    /// The replicas share the Lease `ovn-writer` in `--objects-namespace`, or a lock in the folder.
    #[arg(long, help_heading = WRITES)]
    pub leader_elect: bool,

    /// The URL where the ovn-writer accepts `ovn-writer allow-empty`.
    ///
    /// `unix:///run/control.sock`, without options. Only the user of this process can open the socket. Default: none.
    #[arg(long, value_name = "URL", value_parser = parse_control, help_heading = WRITES)]
    pub control: Option<ListenAddress>,

    /// The contents of the address sets.
    #[command(flatten, next_help_heading = ADDRESS_SETS)]
    pub sets: SetsArgs,

    /// When changes are realized.
    #[command(flatten, next_help_heading = REALIZED)]
    pub realized: RealizedArgs,

    /// Until this time, empty the sets of names that are absent at the start, for any number of names.
    ///
    /// An RFC 3339 time within the next hour, such as 2026-01-31T15:04:05Z. Later the flag has no effect. Default: none.
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = ADDRESS_SETS)]
    pub allow_empty_until: Option<Timestamp>,
}

impl Args {
    /// The policy for the objects of the store. `now` is the time of day.
    ///
    /// # Errors
    /// [`UsageError`] for a time of `--allow-empty-until` that is too far ahead.
    pub fn policy(&self, now: Timestamp) -> Result<Policy, UsageError> {
        let sets = self.sets.clone();
        let mut policy = sets.policy(&self.common.store, &self.common.objects_namespace);
        if let Some(until) = self.allow_empty_until {
            policy.allow_empty_until = permission_end(until, now)?;
        }
        Ok(policy)
    }
}

/// The command line.
#[derive(Clone, Debug)]
pub enum Cli {
    /// Write, or print what would be written, until a signal comes.
    Run(Box<Args>),
    /// `ovn-writer allow-empty`.
    AllowEmpty(Box<AllowEmptyArgs>),
}

impl CommandFactory for Cli {
    fn command() -> Command {
        hide_others_in_short_help(Args::command(), &EVERYDAY)
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
            Some((_, matches)) => AllowEmptyArgs::from_arg_matches(matches)
                .map(|args| Self::AllowEmpty(Box::new(args))),
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
}

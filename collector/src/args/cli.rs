//! What the program is to do: its work, or one of the subcommands.

use std::{path::PathBuf, time::Duration};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use proto::api::DnsName;
use runtime::{
    args::{StoreAddress, parse_duration, parse_size},
    inspect::client::{ExplainArgs, Output},
    listen::{ListenAddress, parse_local},
};

use super::{Args, KeepArgs};
use crate::corefile::args::CorefileArgs;

/// Where the subcommands look for a running collector, if nobody says.
const INSPECT: &str = "tcp://127.0.0.1:9092";

/// Reads a file of dnstap events and prints what the collector would have done about them.
///
/// Nothing is looked up and nothing is written: it begins with no addresses, and one leaves when its time is over. The clock is
/// that of the events.
#[derive(Clone, Debug, Parser)]
#[command(name = "replay")]
pub struct ReplayArgs {
    /// Frame Streams of dnstap, as `collector capture` and `fstrm_capture` write them; `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where the EgressFirewalls are whose names are wanted: `dir:PATH` or `kube`
    #[arg(long, value_name = "ADDRESS", required_unless_present = "names")]
    pub store: Option<StoreAddress>,

    /// A name that is wanted, as in a rule (`www.example.com`, `*.example.com`); may be given several times
    #[arg(long = "name", value_name = "NAME", value_delimiter = ',', value_parser = DnsName::parse)]
    pub names: Vec<DnsName>,

    /// Which addresses are kept, and for how long.
    #[command(flatten)]
    pub keep: KeepArgs,

    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

/// Writes the events that a running collector reads into a file, as Frame Streams.
///
/// The file has every question of every client: mind who gets it. The secret in `extra` is crossed out, if the collector asks for
/// one.
#[derive(Clone, Debug, Parser)]
#[command(name = "capture")]
pub struct CaptureArgs {
    /// The file, which must not be there yet; `-` for stdout
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The `--inspect` address of the running collector
    #[arg(long, value_name = "URL", default_value = INSPECT, value_parser = parse_local)]
    pub inspect: ListenAddress,

    /// For how long, at most 10 minutes
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,

    /// How many bytes, at most
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub size: usize,
}

/// What the program is to do.
#[derive(Clone, Debug)]
pub enum Cli {
    /// Its work, without end.
    Run(Box<Args>),
    /// Go through a file.
    Replay(Box<ReplayArgs>),
    /// Say why something is there, or is not.
    Explain(Box<ExplainArgs>),
    /// Write one.
    Capture(Box<CaptureArgs>),
    /// Work on a Corefile.
    Corefile(Box<CorefileArgs>),
}

/// The flags that `-h` shows; `--help` shows all.
const EVERYDAY: [&str; 23] = [
    "store",
    "objects-namespace",
    "admin",
    "log-format",
    "listen",
    "certificate",
    "private-key",
    "allow-peer",
    "secret-file",
    "manage-objects",
    "min-ttl",
    "max-ttl",
    "grace",
    "retain",
    "deny-answer",
    "resolver",
    "resolver-service",
    "peer-service",
    "flush-probe",
    "flush-name",
    "corefile",
    "inspect",
    "shutdown-delay",
];

impl CommandFactory for Cli {
    fn command() -> Command {
        Args::command()
            .mut_args(|arg| {
                let is_everyday = arg.get_long().is_some_and(|flag| EVERYDAY.contains(&flag));
                arg.hide_short_help(!is_everyday)
            })
            .subcommand(ReplayArgs::command())
            .subcommand(CaptureArgs::command())
            .subcommand(CorefileArgs::command())
            .subcommand(ExplainArgs::command_with(INSPECT))
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(match matches.subcommand() {
            Some(("replay", it)) => Self::Replay(Box::new(ReplayArgs::from_arg_matches(it)?)),
            Some(("corefile", it)) => Self::Corefile(Box::new(CorefileArgs::from_arg_matches(it)?)),
            Some(("explain", it)) => Self::Explain(Box::new(ExplainArgs::from_arg_matches(it)?)),
            Some((_, it)) => Self::Capture(Box::new(CaptureArgs::from_arg_matches(it)?)),
            None => Self::Run(Box::new(Args::from_arg_matches(matches)?)),
        })
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

    fn parsed(args: &[&str]) -> Result<Cli, String> {
        let args = [&["collector"], args].concat();
        try_parse_from("COLLECTOR", "127.0.0.1:9090", args, |_| None)
            .map_err(|error| format!("{}: {error}", error.exit_code()))
    }

    #[test]
    fn without_a_subcommand_it_does_its_work() {
        let args = ["--store=dir:x", "--listen=unix:///run/x"];
        assert!(matches!(parsed(&args).unwrap(), Cli::Run(_)));
    }

    #[test]
    fn the_short_help_shows_the_everyday_flags_and_the_long_one_all() {
        let flags = |help: &str| {
            let text = parsed(&[help]).unwrap_err();
            let lines = text.lines().map(str::trim_start);
            let flags =
                lines.filter_map(|line| line.split("--").nth(1).filter(|_| line.starts_with('-')));
            let names = flags.map(|it| it.split([' ', '=', '[']).next().unwrap_or(it).to_owned());
            names.collect::<Vec<_>>()
        };
        let (short, long) = (flags("-h"), flags("--help"));
        assert!(short.len() <= 25, "{short:?}");
        assert!(long.len() > 50, "{long:?}");
        assert!(
            EVERYDAY
                .iter()
                .all(|it| short.iter().any(|flag| flag == it)),
            "{short:?}"
        );
    }

    #[test]
    fn the_clusters_dns_alone_is_believed_unless_another_service_is_named() {
        let of = |more: &[&str]| match parsed(
            &[&["--store=kube", "--listen=unix:///run/x"], more].concat(),
        ) {
            Ok(Cli::Run(args)) => {
                let services = args.resolver_service.iter();
                services
                    .map(|it| format!("{}/{}", it.namespace, it.name))
                    .collect()
            }
            other => vec![format!("{other:?}")],
        };
        assert_eq!(of(&[]), ["kube-system/kube-dns"]);
        let named = ["--resolver-service", "openshift-dns/dns-default"];
        assert_eq!(of(&named), ["openshift-dns/dns-default"]);
    }

    #[test]
    fn a_replay_needs_a_file_and_names() {
        match parsed(&[
            "replay",
            "x.fstrm",
            "--name",
            "www.example.com,*.example.org",
        ])
        .unwrap()
        {
            Cli::Replay(args) => {
                let names: Vec<String> = args.names.iter().map(ToString::to_string).collect();
                assert_eq!(names, ["www.example.com.", "*.example.org."]);
                assert_eq!(args.keep.grace, Duration::from_secs(5));
            }
            other => panic!("{other:?}"),
        }
        for (args, words) in [
            (&["replay", "--name=x.example"][..], "<FILE>"),
            (&["replay", "x.fstrm"], "--store"),
            (&["replay", "x.fstrm", "--name=a..b"], "--name"),
            (
                &[
                    "replay",
                    "x.fstrm",
                    "--name=x.example",
                    "--listen=unix:///x",
                ],
                "--listen",
            ),
        ] {
            let error = parsed(args).unwrap_err();
            let fits = error.starts_with("2: ") && error.contains(words);
            assert!(fits, "{args:?}: {error}");
        }
    }

    #[test]
    fn an_explanation_needs_one_name_or_address() {
        let args = ["explain", "www.example.com", "--inspect=unix:///run/x"];
        match parsed(&args).unwrap() {
            Cli::Explain(args) => {
                assert_eq!(args.about, "www.example.com");
                assert_eq!(args.output, Output::Text);
            }
            other => panic!("{other:?}"),
        }
        for (more, words) in [
            (&["--namespace=A_b"][..], "--namespace"),
            (&["another.example"], "another.example"),
            (&["--inspect=tcp://192.0.2.1:1"], "--inspect"),
            (&["-o", "yaml"], "--output"),
        ] {
            let error = parsed(&[&args[..2], more].concat()).unwrap_err();
            assert!(error.starts_with("2: ") && error.contains(words), "{error}");
        }
        match parsed(&args[..2]).unwrap() {
            Cli::Explain(args) => assert_eq!(args.inspect.to_string(), INSPECT),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_capture_needs_a_file() {
        let args = [
            "capture",
            "x.fstrm",
            "--inspect=unix:///run/x",
            "--size=1MiB",
        ];
        match parsed(&args).unwrap() {
            Cli::Capture(args) => assert_eq!(args.size, 1 << 20),
            other => panic!("{other:?}"),
        }
        match parsed(&["capture", "x.fstrm"]).unwrap() {
            Cli::Capture(args) => assert_eq!(args.inspect.to_string(), INSPECT),
            other => panic!("{other:?}"),
        }
        let error = parsed(&["capture"]).unwrap_err();
        assert!(error.contains("<FILE>"), "{error}");
    }
}

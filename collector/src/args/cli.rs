//! The work of the program, or one of the subcommands.

use std::{path::PathBuf, time::Duration};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use proto::api::DnsName;
use runtime::{
    args::{StoreAddress, hide_others_in_short_help, parse_duration, parse_size},
    inspect::client::{ExplainArgs, Output},
    listen::{ListenAddress, parse_local},
};

use super::{
    Args, GuardArgs, NAME_LIMITS, NameLimitArgs, REFUSED_ADDRESSES, RETENTION, RetentionArgs,
};
use crate::corefile::args::CorefileArgs;

/// The default of `--inspect` of the subcommands.
const INSPECT: &str = "tcp://127.0.0.1:9092";

/// Processes a file of dnstap events and prints which addresses the collector would have opened and closed.
///
/// The command looks nothing up and writes nothing. It begins with no addresses. An address leaves when its time is over. The clock is that
/// of the events.
#[derive(Clone, Debug, Parser)]
#[command(name = "replay")]
pub struct ReplayArgs {
    /// The file with dnstap events as Frame Streams; `-` is stdin.
    ///
    /// `collector capture` and `fstrm_capture` write such files.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The store with the EgressFirewalls whose names count: `dir:PATH` or `kube`.
    ///
    /// The command needs this flag or `--name`. Default: none.
    #[arg(long, value_name = "STORE", required_unless_present = "names")]
    pub store: Option<StoreAddress>,

    /// A name that counts, as in a rule; repeatable.
    ///
    /// Such as `www.example.com` or `*.example.com`. Default: none.
    #[arg(long = "name", value_name = "NAME", value_delimiter = ',', value_parser = DnsName::parse)]
    pub names: Vec<DnsName>,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    /// How long addresses stay.
    #[command(flatten, next_help_heading = RETENTION)]
    pub retention: RetentionArgs,

    /// Refused addresses.
    #[command(flatten, next_help_heading = REFUSED_ADDRESSES)]
    pub guards: GuardArgs,

    /// How many names and addresses there may be.
    #[command(flatten, next_help_heading = NAME_LIMITS)]
    pub name_limits: NameLimitArgs,
}

/// Writes the dnstap events that a running collector reads into a file, as Frame Streams.
///
/// The file has every question of every client: keep it confidential. If the collector has a `--secret-file`, the secret in `extra` is
/// crossed out.
#[derive(Clone, Debug, Parser)]
#[command(name = "capture")]
pub struct CaptureArgs {
    /// The file to write, which must not exist yet; `-` is stdout.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The `--inspect` URL of the running collector.
    #[arg(long, value_name = "URL", default_value = INSPECT, value_parser = parse_local)]
    pub inspect: ListenAddress,

    /// How long the capture takes, at most 10m.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,

    /// The size of the file at which the capture ends.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub size: usize,
}

/// The command line.
#[derive(Clone, Debug)]
pub enum Cli {
    /// Run until a signal comes.
    Run(Box<Args>),
    /// `collector replay`.
    Replay(Box<ReplayArgs>),
    /// `collector explain`.
    Explain(Box<ExplainArgs>),
    /// `collector capture`.
    Capture(Box<CaptureArgs>),
    /// `collector corefile`.
    Corefile(Box<CorefileArgs>),
}

/// The flags that `-h` shows; `--help` shows all.
const EVERYDAY: [&str; 17] = [
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
    "corefile",
    "inspect",
];

impl CommandFactory for Cli {
    fn command() -> Command {
        hide_others_in_short_help(Args::command(), &EVERYDAY)
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
    use crate::{
        args::{ADMIN, PREFIX},
        corefile::args::CorefileAction,
    };

    fn parsed(args: &[&str]) -> Result<Cli, String> {
        let args = [&["collector"], args].concat();
        try_parse_from(PREFIX, ADMIN, args, |_| None)
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
        assert!(short.len() < 20, "{short:?}");
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
                let services = args.lookups.resolver_service.iter();
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
    fn a_leftover_variable_does_not_turn_a_patch_into_a_removal() {
        let args = ["collector", "corefile", "patch", "--dnstap=/run/x.sock"];
        let variable = |name: &str| match name {
            "COLLECTOR_EXTRA" => Some("the-secret-of-events".into()),
            "COLLECTOR_REMOVE" | "COLLECTOR_CONFIGMAP" => Some("true".into()),
            _ => None,
        };
        let Ok(Cli::Corefile(args)) = try_parse_from(PREFIX, ADMIN, args, variable) else {
            panic!("a usage error");
        };
        let CorefileAction::Patch(args) = args.action else {
            panic!("{args:?}");
        };
        assert!(!args.remove && !args.input.configmap);
        let lines = args.input.line.lines();
        assert_eq!(lines[0].extra.as_deref(), Some("the-secret-of-events"));
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
                assert_eq!(args.retention.grace, Duration::from_secs(5));
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

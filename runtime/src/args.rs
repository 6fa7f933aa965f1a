//! Flags and environment variables: those of both programs, and the parser of all of them.

use std::{
    env,
    ffi::OsString,
    fmt::{self, Display},
    fs,
    net::SocketAddr,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{ArgAction, ArgMatches, Command, CommandFactory, Parser};

/// Parses `500ms`, `5s`, `10m`, `1h 30m` or `7d`; `0` needs no unit. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
pub fn parse_duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// Writes a duration as [`parse_duration`] reads it, in its largest whole unit up to hours: `24h`, `90s`, `100ms`.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    match units.iter().find(|(_, unit)| millis.is_multiple_of(*unit)) {
        Some((name, unit)) if millis > 0 => format!("{}{name}", millis / unit),
        _ => "0".to_owned(),
    }
}

/// Reads `4096`, `64KiB`, `16MiB` or `1GiB`: bytes. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let size: bytesize::ByteSize = text.parse()?;
    usize::try_from(size.as_u64()).map_err(|error| error.to_string())
}

/// Parses the name of a Kubernetes namespace, a label of RFC 1123. A clap `value_parser`.
///
/// # Errors
/// A message that completes clap's.
pub fn parse_namespace(text: &str) -> Result<String, &'static str> {
    if crate::store::names::is_namespace(text) {
        Ok(text.to_owned())
    } else {
        Err("a namespace is of 1 to 63 lower-case letters, digits and inner `-`")
    }
}

/// The file with the namespace of a pod's ServiceAccount.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The program's own namespace: that of its pod, and `egress-by-name` outside of a pod.
pub fn own_namespace() -> String {
    let of_pod = fs::read_to_string(POD_NAMESPACE).ok();
    let of_pod = of_pod.and_then(|text| parse_namespace(text.trim()).ok());
    of_pod.unwrap_or_else(|| "egress-by-name".to_owned())
}

/// The place of the objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreAddress {
    /// `dir:PATH`: YAML files in a folder.
    Dir(PathBuf),
    /// `kube`: the Kubernetes API server.
    Kube,
}

impl FromStr for StoreAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("dir:") {
            Some(path) if !path.is_empty() => Ok(Self::Dir(path.into())),
            None if text == "kube" => Ok(Self::Kube),
            _ => Err("a store is `dir:PATH` or `kube`"),
        }
    }
}

impl Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(path) => write!(f, "dir:{}", path.display()),
            Self::Kube => f.write_str("kube"),
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The headings of flags that both programs have.
pub mod headings {
    /// Where the objects are.
    pub const STORE: &str = "Store";
    /// What the program shows.
    pub const OBSERVABILITY: &str = "Observability";
}

/// The flags of both programs. Flatten it into a program's own flags.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonArgs {
    /// The store of the objects: `dir:PATH` or `kube`.
    ///
    /// `dir:PATH` is a folder with YAML manifests. `kube` is the Kubernetes API server; the program finds it as kubectl does, or from inside
    /// of a pod.
    #[arg(long, value_name = "STORE", help_heading = headings::STORE)]
    pub store: StoreAddress,

    /// The address where the program serves `/livez`, `/readyz` and `/metrics`.
    ///
    /// Port 0 takes a free port, which the log names.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = headings::OBSERVABILITY)]
    pub admin: SocketAddr,

    /// The format of log lines.
    ///
    /// The environment variable `RUST_LOG` chooses the lines, such as `debug`. Its default is `info`.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = headings::OBSERVABILITY
    )]
    pub log_format: LogFormat,
}

/// The flags of subcommands that have a variable: they say where to read, or keep a secret off the command line. A variable
/// that is left over in the environment must not change what a subcommand does.
pub const SUBCOMMAND_VARIABLES: [&str; 5] = [
    "collector",
    "ovn-writer",
    "policy-writer",
    "release-namespace",
    "extra",
];

/// Parses the command line and the environment of the process.
///
/// Every flag of the program can also be set by the environment variable `PREFIX_FLAG`, which `--help` names. The
/// variable of `--min-ttl` with the prefix `COLLECTOR` is `COLLECTOR_MIN_TTL`. Of the flags of subcommands only
/// [`SUBCOMMAND_VARIABLES`] have one. The flag wins; an empty variable counts as unset. A repeatable flag takes a
/// comma-separated list in either place. `admin_default` is the default of `--admin`.
///
/// A usage error ends the program with status 2. `--help` and `--version` (where `A` has `#[command(version)]`) end it
/// with status 0.
pub fn parse<A: Parser>(prefix: &'static str, admin_default: &'static str) -> A {
    let parsed = try_parse_from(prefix, admin_default, env::args_os(), |name| {
        env::var_os(name)
    });
    parsed.unwrap_or_else(|error| error.exit())
}

/// [`parse`] with the command line (the program's name first) and the environment as parameters.
///
/// # Errors
/// The text that clap would print, also for `--help` and `--version`.
pub fn try_parse_from<A, I>(
    prefix: &str,
    admin_default: &'static str,
    args: I,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<A, clap::Error>
where
    A: Parser,
    I: IntoIterator<Item: Into<OsString> + Clone>,
{
    let mut command = with_environment(A::command(), false, prefix, admin_default, &variable);
    let mut matches: ArgMatches = command.try_get_matches_from_mut(args)?;
    A::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The flags as `--help` describes them without any variable set, for the documentation.
pub fn command<A: CommandFactory>(prefix: &str, admin_default: &'static str) -> Command {
    with_environment(A::command(), false, prefix, admin_default, &|_| None)
}

/// Gives each flag that has a variable the name of it in the help, and the value of it as its default.
///
/// clap's own `env` cannot be used: it reads the environment of the process and takes no other.
fn with_environment(
    command: Command,
    is_subcommand: bool,
    prefix: &str,
    admin_default: &'static str,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Command {
    let command = command.mut_subcommands(|subcommand| {
        with_environment(subcommand, true, prefix, admin_default, variable)
    });
    command.mut_args(|mut arg| {
        let Some(flag) = arg.get_long() else {
            return arg;
        };
        if matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
        ) {
            return arg;
        }
        let name = format!("{prefix}_{}", flag.to_ascii_uppercase().replace('-', "_"));
        let has_variable = !is_subcommand || SUBCOMMAND_VARIABLES.contains(&flag);
        if flag == "admin" {
            arg = arg.required(false).default_value(admin_default);
        }
        if matches!(arg.get_action(), ArgAction::Append) {
            arg = arg.value_delimiter(',');
        }
        if !has_variable {
            return arg;
        }
        if let Some(value) = variable(&name).filter(|value| !value.is_empty()) {
            arg = arg.required(false).default_values([value]);
        }
        let note = |help: &dyn Display| format!("{help} [env: {name}]");
        let long = arg.get_long_help().map(|help| note(help));
        let short = arg.get_help().map_or_else(|| note(&""), |help| note(help));
        match long {
            Some(long) => arg.help(short).long_help(long),
            None => arg.help(short),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    #[command(version)]
    struct Program {
        #[command(flatten)]
        common: CommonArgs,

        /// Addresses
        #[arg(long, required = true)]
        listen: Vec<String>,

        /// A floor
        #[arg(long, default_value = "5s", value_parser = parse_duration)]
        min_ttl: Duration,

        /// A switch
        #[arg(long)]
        dry_run: bool,
    }

    fn program(args: &[&str], environment: &[(&str, &str)]) -> Result<Program, clap::Error> {
        let args = [&["program"], args].concat();
        try_parse_from("PROGRAM", "127.0.0.1:9090", args, |name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn a_duration_is_of_numbers_and_units() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5_000),
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("7d", 604_800_000),
            ("0", 0),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5S", "٥s", "9999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_a_number_of_bytes_or_of_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("2MiB", 2 << 20),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1 furlong"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_flag_can_be_set_by_its_variable() {
        let environment = [
            ("PROGRAM_STORE", "dir:x"),
            ("PROGRAM_ADMIN", "[::1]:0"),
            ("PROGRAM_LOG_FORMAT", "json"),
            ("PROGRAM_LISTEN", "a,b"),
            ("PROGRAM_MIN_TTL", "7s"),
            ("PROGRAM_DRY_RUN", "true"),
        ];
        let program = program(&[], &environment).unwrap();
        assert_eq!(program.common.store, StoreAddress::Dir("x".into()));
        assert_eq!(program.common.admin, "[::1]:0".parse().unwrap());
        assert_eq!(program.common.log_format, LogFormat::Json);
        assert_eq!(program.listen, ["a", "b"]);
        assert_eq!(program.min_ttl, Duration::from_secs(7));
        assert!(program.dry_run);
    }

    #[test]
    fn an_empty_variable_is_as_good_as_none() {
        let environment = [("PROGRAM_MIN_TTL", ""), ("PROGRAM_LISTEN", "")];
        let read = program(&["--store=kube", "--listen=a"], &environment).unwrap();
        assert_eq!(read.min_ttl, Duration::from_secs(5));
        let error = program(&["--store=kube"], &environment).unwrap_err();
        assert!(error.to_string().contains("--listen"), "{error}");
    }
}

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

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;
    use crate::args::{ADMIN, PREFIX};

    fn parsed(args: &[&str]) -> Result<Cli, String> {
        let args = [&["collector"], args].concat();
        try_parse_from(PREFIX, ADMIN, args, |_| None)
            .map_err(|error| format!("{}: {error}", error.exit_code()))
    }

    #[test]
    fn answers_come_from_the_cluster_dns_or_a_listed_service() {
        let of = |more: &[&str]| match parsed(
            &[&["--store=kube", "--listen=unix:///run/x"], more].concat(),
        ) {
            Ok(Cli(args)) => {
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
}

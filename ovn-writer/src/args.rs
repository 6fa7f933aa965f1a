//! What the program is told.

use clap::Parser;
use runtime::args::CommonArgs;

use crate::ovsdb::Remotes;

/// The prefix of the environment variables.
pub const PREFIX: &str = "OVN_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9091";

/// Writes the addresses of DNSNameResolver objects into the address sets of OVN's northbound database.
#[derive(Clone, Debug, Parser)]
#[command(name = "ovn-writer", version)]
pub struct Args {
    /// What both programs are told.
    #[command(flatten)]
    pub common: CommonArgs,

    /// The northbound database: unix:PATH or tcp:HOST:PORT, or several servers of it with commas between them
    #[arg(
        long,
        value_name = "REMOTES",
        default_value = "unix:/run/ovn/ovnnb_db.sock"
    )]
    pub nb: Remotes,
}

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;

    fn nb(args: &[&str], variable: Option<&str>) -> Result<String, String> {
        let args = [&["ovn-writer", "--store", "dir:x"], args].concat();
        let variable = |name: &str| {
            if name == "OVN_WRITER_NB" {
                variable.map(Into::into)
            } else {
                None
            }
        };
        try_parse_from::<Args, _>(PREFIX, ADMIN, args, variable)
            .map(|args| args.nb.to_string())
            .map_err(|error| format!("{}: {error}", error.exit_code()))
    }

    #[test]
    fn the_database_is_the_local_one_unless_told_otherwise() {
        assert_eq!(nb(&[], None).unwrap(), "unix:/run/ovn/ovnnb_db.sock");
        assert_eq!(nb(&[], Some("tcp:a:1,tcp:b:2")).unwrap(), "tcp:a:1,tcp:b:2");
        assert_eq!(
            nb(&["--nb", "tcp:[::1]:6641"], Some("unix:/x")).unwrap(),
            "tcp:[::1]:6641"
        );
    }

    #[test]
    fn a_remote_that_cannot_be_used_is_a_usage_error() {
        for (remote, words) in [
            ("ssl:10.0.0.1:6641", "ssl: is not supported yet"),
            ("nonsense", "neither unix: nor tcp:"),
            ("unix:/a,", "an empty remote"),
        ] {
            let error = nb(&["--nb", remote], None).unwrap_err();
            assert!(
                error.starts_with("2: ") && error.contains("--nb") && error.contains(words),
                "{error}"
            );
        }
    }
}

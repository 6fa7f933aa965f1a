//! The northbound database, and how to connect to it. The flags of keys and
//! certificates have the names that they have in OVN's programs.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ovsdb_replica::{ClientOptions, Limits, Remotes, TlsIdentity, TlsOptions, Verify};
use runtime::{
    UsageError,
    args::{parse_duration, parse_size},
    certificate_expiry::Role,
    memory,
};

use crate::address_set::NORTHBOUND;

/// Shorter ones would find servers silent that are only busy.
const SHORTEST_PROBE: Duration = Duration::from_secs(1);

/// The reply that holds the whole database must fit; `_Server` alone needs some hundred bytes.
const SMALLEST_MESSAGE: usize = 64 << 10;

/// The flags of the northbound database.
#[derive(Args, Clone, Debug)]
pub struct NorthboundArgs {
    /// The northbound database: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
    ///
    /// Commas separate several servers of one cluster.
    #[arg(
        long,
        value_name = "REMOTES",
        default_value = "unix:/run/ovn/ovnnb_db.sock"
    )]
    pub nb: Remotes,

    /// The PEM file with the key of `--certificate`.
    ///
    /// The ovn-writer reads it for each new connection. Default: none.
    #[arg(long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,

    /// The PEM file with the certificate that the ovn-writer shows to `ssl:` remotes.
    ///
    /// The ovn-writer reads it for each new connection. It needs `--private-key`. Default: none.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,

    /// The PEM file with the authority that signs the certificates of `ssl:` remotes.
    ///
    /// The ovn-writer reads it for each new connection. An `ssl:` remote needs this flag. Default: none.
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,

    /// The checks of the certificate of an `ssl:` remote.
    #[arg(long, value_name = "CHECKS", value_enum, default_value_t)]
    pub verify_certificate: VerifyArg,

    /// Whether to connect to the leader of a cluster only.
    ///
    /// Without a value: `true`. Default: `true` with several remotes, `false` with one.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_only: Option<bool>,

    /// How long a `tcp:` or `ssl:` remote may be silent before the ovn-writer checks that it is there.
    ///
    /// 0, or at least 1s. The session ends after as long a silence again. 0: no checks.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_probe)]
    pub inactivity_probe: Duration,

    /// The longest message of a server that the ovn-writer accepts.
    ///
    /// At least 64KiB. The first message has all rows that the ovn-writer monitors, such as Address_Set and ACL. So the flag bounds the size
    /// of the database. Default: a quarter of the container's memory limit, at most 512MiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_message_size)]
    pub max_message: Option<usize>,
}

/// [`Verify`], as a flag.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum VerifyArg {
    /// The authority of `--ca-cert` signed it, as OVN's programs check it
    #[default]
    Chain,
    /// The authority also signed it for the host of the remote
    Full,
}

impl NorthboundArgs {
    /// The files with certificates.
    pub fn certificates(&self) -> Vec<(Role, PathBuf)> {
        let authority = self.ca_cert.clone().map(|path| (Role::Authority, path));
        let own = self.certificate.clone().map(|path| (Role::Client, path));
        authority.into_iter().chain(own).collect()
    }

    /// How to connect.
    ///
    /// # Errors
    /// [`UsageError`] for flags that do not go together.
    pub fn client_options(&self) -> Result<ClientOptions, UsageError> {
        let usage = |words: &str| Err(UsageError(words.to_owned()));
        if self.nb.need_tls() && self.ca_cert.is_none() {
            return usage("--nb names an ssl: remote, which needs --ca-cert");
        }
        let identity = match (self.private_key.clone(), self.certificate.clone()) {
            (None, None) => None,
            (Some(private_key), Some(certificate)) => Some(TlsIdentity {
                private_key,
                certificate,
            }),
            _ => return usage("--private-key and --certificate go together"),
        };
        let mut options = ClientOptions::new(NORTHBOUND);
        options.leader_only = self.leader_only;
        let transport = &mut options.session.transport;
        let max_message = self.max_message;
        transport.limits.max_message =
            max_message.unwrap_or_else(|| longest_message(memory::limit()));
        transport.inactivity_probe = Some(self.inactivity_probe).filter(|probe| !probe.is_zero());
        transport.tls = self.ca_cert.clone().map(|ca_cert| TlsOptions {
            ca_cert,
            identity,
            verify: match self.verify_certificate {
                VerifyArg::Chain => Verify::Chain,
                VerifyArg::Full => Verify::Full,
            },
        });
        Ok(options)
    }
}

/// The longest message that can be read within so much memory: what is read of it takes no more than twice its size besides.
fn longest_message(memory: Option<u64>) -> usize {
    let most = Limits::default().max_message;
    let quarter = memory.map(|limit| usize::try_from(limit / 4).unwrap_or(usize::MAX));
    quarter.map_or(most, |quarter| quarter.clamp(SMALLEST_MESSAGE, most))
}

fn parse_probe(text: &str) -> Result<Duration, String> {
    let probe = parse_duration(text).map_err(|error| error.to_string())?;
    if probe.is_zero() || probe >= SHORTEST_PROBE {
        Ok(probe)
    } else {
        Err("it is 0 or at least 1s".to_owned())
    }
}

fn parse_message_size(text: &str) -> Result<usize, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size < SMALLEST_MESSAGE {
        return Err("it is at least 64KiB".to_owned());
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;
    use crate::{ADMIN, Args, PREFIX};

    fn parsed(args: &[&str], variable: Option<(&str, &str)>) -> Result<NorthboundArgs, String> {
        let args = [&["ovn-writer", "--store", "dir:x"], args].concat();
        let variable = |name: &str| {
            let (set, value) = variable?;
            (name == set).then(|| value.into())
        };
        try_parse_from::<Args, _>(PREFIX, ADMIN, args, variable)
            .map(|args| args.northbound)
            .map_err(|error| format!("{}: {error}", error.exit_code()))
    }

    fn options(args: &[&str]) -> ClientOptions {
        parsed(args, None).unwrap().client_options().unwrap()
    }

    #[test]
    fn the_database_is_the_local_one_unless_told_otherwise() {
        let nb = |args, variable| parsed(args, variable).unwrap().nb.to_string();
        assert_eq!(nb(&[], None), "unix:/run/ovn/ovnnb_db.sock");
        assert_eq!(
            nb(&[], Some(("OVN_WRITER_NB", "tcp:a:1,ssl:b:2"))),
            "tcp:a:1,ssl:b:2"
        );
        assert_eq!(
            nb(
                &["--nb", "tcp:[::1]:6641"],
                Some(("OVN_WRITER_NB", "unix:/x"))
            ),
            "tcp:[::1]:6641"
        );
    }

    #[test]
    fn what_cannot_be_used_is_a_usage_error() {
        for (flag, value, words) in [
            ("--nb", "nonsense", "none of unix:, tcp: and ssl:"),
            ("--nb", "unix:/a,", "an empty remote"),
            (
                "--verify-certificate",
                "none",
                "possible values: chain, full",
            ),
            ("--inactivity-probe", "10ms", "at least 1s"),
            ("--inactivity-probe", "5", "time unit needed"),
            ("--max-message", "1", "at least 64KiB"),
            ("--max-message", "512 furlongs", "known SI unit"),
            ("--leader-only", "true", "unexpected argument"),
        ] {
            let error = parsed(&[flag, value], None).unwrap_err();
            assert!(
                error.starts_with("2: ") && error.contains(flag) && error.contains(words)
                    || flag == "--leader-only" && error.contains(words),
                "{error}"
            );
        }
    }

    #[test]
    fn the_connection_is_as_the_flags_say() {
        let plain = options(&[]);
        assert_eq!(plain.database, "OVN_Northbound");
        assert_eq!(plain.leader_only, None);
        let transport = plain.session.transport;
        assert_eq!(
            transport.limits.max_message,
            longest_message(memory::limit())
        );
        assert_eq!(transport.inactivity_probe, Some(Duration::from_secs(5)));
        assert_eq!(transport.tls, None);

        let told = options(&[
            "--nb=ssl:a:1",
            "--private-key=/k",
            "--certificate=/c",
            "--ca-cert=/ca",
            "--verify-certificate=full",
            "--leader-only",
            "--inactivity-probe=0",
            "--max-message=1GiB",
        ]);
        assert_eq!(told.leader_only, Some(true));
        let transport = told.session.transport;
        assert_eq!(transport.limits.max_message, 1 << 30);
        assert_eq!(transport.inactivity_probe, None);
        let identity = TlsIdentity {
            private_key: "/k".into(),
            certificate: "/c".into(),
        };
        let tls = TlsOptions {
            ca_cert: "/ca".into(),
            identity: Some(identity),
            verify: Verify::Full,
        };
        assert_eq!(transport.tls, Some(tls));

        let leader_only = |args, variable| parsed(args, variable).unwrap().leader_only;
        assert_eq!(leader_only(&["--leader-only=false"], None), Some(false));
        let variable = Some(("OVN_WRITER_LEADER_ONLY", "false"));
        assert_eq!(leader_only(&[], variable), Some(false));
    }

    #[test]
    fn a_message_fits_the_memory_of_the_container() {
        for (memory, longest) in [
            (None, 512 << 20),
            (Some(u64::MAX), 512 << 20),
            (Some(512 << 20), 128 << 20),
            (Some(1 << 10), SMALLEST_MESSAGE),
        ] {
            assert_eq!(longest_message(memory), longest, "{memory:?}");
        }
    }

    #[test]
    fn what_tls_needs_must_be_there() {
        let error = |args: &[&str]| parsed(args, None).unwrap().client_options().unwrap_err();
        assert!(error(&["--nb=unix:/a,ssl:b:1"]).0.contains("--ca-cert"));
        for half in ["--private-key=/k", "--certificate=/c"] {
            assert!(error(&[half]).0.contains("go together"));
        }
    }
}

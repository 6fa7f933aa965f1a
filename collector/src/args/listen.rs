//! Where the collector listens, who may speak there, and how much.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use ipnet::IpNet;
use runtime::{
    UsageError,
    args::{parse_duration, parse_size},
    listen::ListenAddress,
    reload::{Reloaded, Reloading},
    tls,
};
use tokio_rustls::rustls::ServerConfig;

use crate::{
    new_names::NewNameLimits,
    observe::{ConnectionLimits, MaxConnections, secret::Secrets},
};

/// What the program is told of its listeners.
#[derive(Args, Clone, Debug)]
pub struct ListenArgs {
    /// Where to listen for CoreDNS: `unix:///run/collector.sock`, `tcp://127.0.0.1:6000` or `tls://0.0.0.0:6000`; may be given
    /// several times. A unix socket has mode 0660; `?mode=0660&uid=N&gid=N` behind the path says something else, and
    /// `&peer-uid=N` or `&peer-gid=N`, any number of times, let only processes of these users or groups connect.
    #[arg(long, value_name = "URL", required = true, value_delimiter = ',')]
    pub listen: Vec<ListenAddress>,

    /// The PEM file with the certificate of `tls://` listeners, and those between it and its authority; read again when it
    /// changes, like the key.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,

    /// The PEM file with the key of the certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,

    /// Networks whose addresses may speak over TCP and TLS, besides the DNS servers that EndpointSlices list; may be given
    /// several times. A DNS server on the host network that is in one of them needs neither TLS nor the secret.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow_peer: Vec<IpNet>,

    /// A file with a secret that every event must show (`extra` in the Corefile's `dnstap` block): 16 to 256 of A-Z, a-z, 0-9,
    /// `_` and `-`. Two lines while it is changed; read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Whoever reaches a TCP or TLS listener may speak.
    #[arg(long, conflicts_with = "allow_peer")]
    pub insecure_listen: bool,

    /// A DNS server on the host network may speak without TLS and secret. It has the address of its Node, and so has every pod on the
    /// host network of that Node, which may then speak in its stead.
    #[arg(long)]
    pub insecure_host_network: bool,

    /// How long a peer stays that is not known: its EndpointSlice may be behind it.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub unknown_peer_wait: Duration,

    /// Connections in all. Of these, half at most are of peers that are not known.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub max_connections: NonZeroUsize,

    /// Connections of one address, or of one process over a unix socket. CoreDNS has one for each `dnstap` line.
    #[arg(long, value_name = "N", default_value = "64")]
    pub max_connections_per_peer: NonZeroUsize,

    /// From a frame's first byte to its last.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub frame_timeout: Duration,

    /// A TCP peer that is silent for so long is asked whether it is there, and counts as gone after as long again; whole
    /// seconds.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub keepalive: Duration,

    /// Frames a second that are read of a peer, over all its connections; 0: as many as it sends.
    #[arg(long, value_name = "N", default_value = "200000")]
    pub max_frames_per_peer: u32,

    /// New names under wildcards.
    #[command(flatten)]
    pub new_names: NewNameLimits,

    /// Bytes of answers for wanted names that wait to be taken in; one peer may fill a quarter.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_queue)]
    pub observation_queue: usize,
}

/// A value that follows its files, and what makes it follow.
pub type Following<T> = Option<(Reloaded<T>, Reloading<T>)>;

impl ListenArgs {
    /// `lists_peers`: there is a list of the DNS servers.
    ///
    /// # Errors
    /// A listener that anybody could speak to, or `tls://` without a certificate.
    pub fn check(&self, lists_peers: bool) -> Result<(), UsageError> {
        let usage = |words: String| Err(UsageError(words));
        let is_guarded = lists_peers
            || self.insecure_listen
            || self.secret_file.is_some()
            || !self.allow_peer.is_empty();
        for address in &self.listen {
            if matches!(address, ListenAddress::Tls(_)) && self.certificate.is_none() {
                return usage(format!(
                    "--listen {address} needs --certificate and --private-key"
                ));
            }
            let is_exposed = address
                .socket_address()
                .is_some_and(|address| !address.ip().is_loopback());
            if is_exposed && !is_guarded {
                return usage(format!(
                    "--listen {address}: whoever reaches this address could open what the rules name; say who may speak \
                     (--allow-peer, --secret-file, or --store kube, which lists the DNS servers), or --insecure-listen"
                ));
            }
        }
        Ok(())
    }

    /// Whether there is a listener whose peers have addresses.
    pub fn is_on_the_network(&self) -> bool {
        let mut addresses = self.listen.iter();
        addresses.any(|address| address.socket_address().is_some())
    }

    /// The certificate and its key, if there are any.
    ///
    /// # Errors
    /// They cannot be read, or used.
    pub fn tls(&self) -> anyhow::Result<Following<ServerConfig>> {
        let (Some(certificate), Some(key)) = (self.certificate.clone(), self.private_key.clone())
        else {
            return Ok(None);
        };
        let paths = vec![certificate.clone(), key.clone()];
        let parse = move |contents: &[Vec<u8>]| {
            let content = |i: usize| contents.get(i).map_or(&[][..], Vec::as_slice);
            tls::server((&certificate, content(0)), (&key, content(1)))
        };
        Reloading::begin("certificate", paths, parse).map(Some)
    }

    /// The secrets, if events must show any.
    ///
    /// # Errors
    /// The file cannot be read, or is none of secrets.
    pub fn secrets(&self) -> anyhow::Result<Following<Secrets>> {
        let Some(path) = self.secret_file.clone() else {
            return Ok(None);
        };
        let shown = path.display().to_string();
        let parse = move |contents: &[Vec<u8>]| {
            Secrets::parse(&contents.concat())
                .map_err(|error| anyhow::Error::new(error).context(format!("cannot use {shown}")))
        };
        Reloading::begin("secret", vec![path], parse).map(Some)
    }

    /// The bounds of a connection.
    pub fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            frame: self.frame_timeout,
            unknown: self.unknown_peer_wait,
            ..ConnectionLimits::default()
        }
    }

    /// The bounds of all connections.
    pub fn seat_limits(&self) -> MaxConnections {
        MaxConnections {
            connections: self.max_connections.get(),
            of_peer: self.max_connections_per_peer.get(),
            frames_per_second: self.max_frames_per_peer,
        }
    }
}

/// The largest answer fits the part of the queue that one peer may fill.
fn parse_queue(text: &str) -> Result<usize, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size < 1 << 20 {
        return Err("it is at least 1MiB".to_owned());
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        listen: ListenArgs,
    }

    fn check(args: &[&str], lists_peers: bool) -> Result<(), String> {
        let args = ["collector", "--listen"].iter().chain(args);
        let program = Program::try_parse_from(args).map_err(|error| error.to_string())?;
        let checked = program.listen.check(lists_peers);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn a_listener_that_others_can_reach_needs_a_rule_of_who_may_speak() {
        for listener in ["tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://10.0.0.1:1"] {
            let error = check(&[listener], false).unwrap_err();
            assert!(error.contains(listener) && error.contains("--insecure-listen"));
            assert_eq!(check(&[listener], true), Ok(()));
            for rule in [
                &["--allow-peer", "10.0.0.0/8"][..],
                &["--secret-file", "/x"],
                &["--insecure-listen"],
            ] {
                assert_eq!(check(&[&[listener], rule].concat(), false), Ok(()));
            }
        }
        for listener in ["tcp://127.0.0.1:1", "tcp://[::1]:1", "unix:///x"] {
            assert_eq!(check(&[listener], false), Ok(()));
        }
        let two = check(&["unix:///x,tcp://0.0.0.0:1"], false);
        assert!(two.is_err(), "the second counts too");
        let both = [
            "tcp://0.0.0.0:1",
            "--insecure-listen",
            "--allow-peer",
            "10.0.0.0/8",
        ];
        assert!(check(&both, false).is_err(), "they contradict each other");
    }

    #[test]
    fn tls_needs_a_certificate_and_its_key_and_a_rule() {
        assert!(check(&["tls://127.0.0.1:1"], true).is_err());
        let half = ["tls://127.0.0.1:1", "--certificate", "c"];
        assert!(check(&half, true).is_err());
        let whole = [&half[..], &["--private-key", "k"]].concat();
        assert_eq!(check(&whole, false), Ok(()));
        let exposed = [&["tls://0.0.0.0:1"], &whole[1..]].concat();
        assert!(check(&exposed, false).is_err());
        assert_eq!(check(&exposed, true), Ok(()));
    }
}

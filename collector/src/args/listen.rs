//! The listeners: their addresses, and the peers that may stream.

use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use runtime::{
    UsageError,
    listen::ListenAddress,
    reload::{Reloaded, Reloading},
    tls,
};
use tokio_rustls::rustls::ServerConfig;

use crate::listen::secret::Secrets;

const LISTENING: &str = "Listening";
const PEERS: &str = "Peers that may stream";

/// The flags of the listeners.
#[derive(Args, Clone, Debug)]
pub struct ListenArgs {
    /// The URL to listen on for dnstap streams of CoreDNS; repeatable.
    ///
    /// `unix:///run/collector.sock`, `tcp://127.0.0.1:6000` or `tls://0.0.0.0:6000`. A unix socket has mode 0660. `?mode=0660&gid=N`
    /// behind its path changes that, and its group.
    #[arg(long, value_name = "URL", required = true, value_delimiter = ',', help_heading = LISTENING)]
    pub listen: Vec<ListenAddress>,

    /// The PEM file with the certificate of `tls://` listeners.
    ///
    /// Intermediate certificates follow in the same file. The collector reads a changed file again. Default: none.
    #[arg(long, value_name = "FILE", requires = "private_key", help_heading = LISTENING)]
    pub certificate: Option<PathBuf>,

    /// The PEM file with the key of `--certificate`.
    ///
    /// The collector reads a changed file again. Default: none.
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = LISTENING)]
    pub private_key: Option<PathBuf>,

    /// Networks whose addresses may stream over TCP and TLS; repeatable.
    ///
    /// The DNS servers that EndpointSlices list may stream without this flag. Those with the address of a Node need this flag or the
    /// secret. `0.0.0.0/0,::/0` accepts every peer. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = PEERS)]
    pub allow_peer: Vec<IpNet>,

    /// The file with the secret that every event must have.
    ///
    /// CoreDNS sends the `extra` of its `dnstap` block as the secret. A secret has 16 to 256 characters of A-Z, a-z, 0-9, `_` and `-`. While
    /// the secret is changed, the file has the old and the new one on two lines. The collector reads a changed file again. Default: none.
    #[arg(long, value_name = "FILE", help_heading = PEERS)]
    pub secret_file: Option<PathBuf>,
}

/// A value that follows its files, and what makes it follow.
pub type Following<T> = Option<(Reloaded<T>, Reloading<T>)>;

impl ListenArgs {
    /// `lists_peers`: there is a list of the DNS servers.
    ///
    /// # Errors
    /// A listener that every host may stream to, or `tls://` without a certificate.
    pub fn check(&self, lists_peers: bool) -> Result<(), UsageError> {
        let usage = |words: String| Err(UsageError(words));
        let is_guarded = lists_peers || self.secret_file.is_some() || !self.allow_peer.is_empty();
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
                    "--listen {address}: every host that reaches this address could open the firewall for names in rules; name the \
                     peers that may stream (--allow-peer, --secret-file, or --store kube, which lists the DNS servers)"
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
    fn listener_that_others_can_reach_needs_a_rule_of_who_may_speak() {
        for listener in ["tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://10.0.0.1:1"] {
            let error = check(&[listener], false).unwrap_err();
            assert!(error.contains(listener) && error.contains("--allow-peer"));
            assert_eq!(check(&[listener], true), Ok(()));
            for rule in [
                &["--allow-peer", "10.0.0.0/8"][..],
                &["--secret-file", "/x"],
            ] {
                assert_eq!(check(&[&[listener], rule].concat(), false), Ok(()));
            }
        }
        for listener in ["tcp://127.0.0.1:1", "tcp://[::1]:1", "unix:///x"] {
            assert_eq!(check(&[listener], false), Ok(()));
        }
        let two = check(&["unix:///x,tcp://0.0.0.0:1"], false);
        assert!(two.is_err(), "the second counts too");
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

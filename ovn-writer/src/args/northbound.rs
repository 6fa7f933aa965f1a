//! The northbound database, and how to connect to it. The flags of keys and
//! certificates have the names that they have in OVN's programs.

use std::path::PathBuf;

use clap::Args;
use ovsdb_replica::{ClientOptions, Limits, Remotes, TlsIdentity, TlsOptions};
use runtime::UsageError;

use crate::{address_set::NORTHBOUND, memory};

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
}

impl NorthboundArgs {
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
        let transport = &mut options.session.transport;
        transport.limits.max_message = longest_message(memory::limit());
        transport.tls = self
            .ca_cert
            .clone()
            .map(|ca_cert| TlsOptions { ca_cert, identity });
        Ok(options)
    }
}

/// The longest message that can be read within so much memory: what is read of it takes no more than twice its size besides.
fn longest_message(memory: Option<u64>) -> usize {
    let most = Limits::default().max_message;
    let quarter = memory.map(|limit| usize::try_from(limit / 4).unwrap_or(usize::MAX));
    quarter.map_or(most, |quarter| quarter.clamp(SMALLEST_MESSAGE, most))
}

#[cfg(test)]
mod tests {

    use super::*;

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
}

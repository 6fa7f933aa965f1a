//! The TLS options of clients and servers.

use ovsdb_replica::{TlsIdentity, TlsOptions};
pub(crate) use tests::pki::{Authority, Side, Validity};

/// The files of one side, as options.
pub(crate) trait Options {
    /// The options of a client with these files.
    fn options(&self) -> TlsOptions;

    /// The flags of a server with these files.
    fn server_options(&self, remote: &str) -> Vec<String>;
}

impl Options for Side {
    fn options(&self) -> TlsOptions {
        TlsOptions {
            ca_cert: self.ca.clone(),
            identity: Some(TlsIdentity {
                private_key: self.key.clone(),
                certificate: self.certificate.clone(),
            }),
        }
    }

    fn server_options(&self, remote: &str) -> Vec<String> {
        vec![
            format!("--private-key={}", self.key.display()),
            format!("--certificate={}", self.certificate.display()),
            format!("--ca-cert={}", self.ca.display()),
            format!("--remote={remote}"),
        ]
    }
}

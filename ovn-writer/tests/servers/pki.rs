//! What both sides of a TLS connection are told of their files.

use ovsdb_replica::{TlsIdentity, TlsOptions, Verify};
pub(crate) use tests::pki::{Authority, Side, Validity};

/// The files of one side, as options.
pub(crate) trait Options {
    /// What a client with these files is told.
    fn options(&self, verify: Verify) -> TlsOptions;

    /// What a server with these files is told.
    fn server_options(&self, remote: &str) -> Vec<String>;
}

impl Options for Side {
    fn options(&self, verify: Verify) -> TlsOptions {
        TlsOptions {
            ca_cert: self.ca.clone(),
            identity: Some(TlsIdentity {
                private_key: self.key.clone(),
                certificate: self.certificate.clone(),
            }),
            verify,
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

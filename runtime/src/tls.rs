//! TLS: keys and certificates in PEM files, and the server configuration made of them.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use anyhow::{Context, ensure};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// The longest file that is read, in bytes: ten times the certificate authorities of a system.
const LONGEST_FILE: u64 = 4 << 20;

/// Reads a whole file, of at most 4 MiB.
///
/// # Errors
/// The file cannot be read; the error has its path.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bounded = || {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
        ensure!(
            bytes.len() as u64 <= LONGEST_FILE,
            "more than {LONGEST_FILE} bytes"
        );
        Ok(bytes)
    };
    bounded().with_context(|| format!("cannot read {}", path.display()))
}

/// Parses the certificates in PEM, at least one. The path is for errors.
///
/// # Errors
/// There is no certificate, or one cannot be used.
pub fn certificates(path: &Path, pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.and_then(|found| {
        if found.is_empty() {
            Err(pem::Error::NoItemsFound)
        } else {
            Ok(found)
        }
    });
    found.with_context(|| format!("{} holds no usable certificate", path.display()))
}

/// The configuration of a server that shows this certificate chain, and asks clients for no certificate. Each file is
/// given as its path and content. The key is the first private key in PEM (PKCS#8, PKCS#1 or SEC1, not encrypted).
///
/// # Errors
/// A file has nothing usable, or the key does not match the certificate.
pub fn server(certificate: (&Path, &[u8]), key: (&Path, &[u8])) -> anyhow::Result<ServerConfig> {
    let certificates = certificates(certificate.0, certificate.1)?;
    let private_key = PrivateKeyDer::from_pem_slice(key.1)
        .with_context(|| format!("{} holds no usable private key", key.0.display()))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let builder = builder.with_no_client_auth();
            builder.with_single_cert(certificates, private_key)
        })
        .with_context(|| {
            let (key, certificate) = (key.0.display(), certificate.0.display());
            format!("{key} and {certificate} cannot be used")
        })
}

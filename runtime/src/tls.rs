//! TLS: keys and certificates in PEM files, and what a server makes of them.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    self, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// The longest file that is read, in bytes: ten times the authorities of a whole system.
const LONGEST_FILE: u64 = 4 << 20;

/// Why a file with keys or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds no PEM of the kind that it should.
    #[error("{} holds no usable {what}: {source}", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why it does not.
        source: pem::Error,
    },
}

impl FileError {
    fn pem(path: &Path, what: &'static str, source: pem::Error) -> Self {
        Self::Pem {
            path: path.to_owned(),
            what,
            source,
        }
    }
}

/// Why a server cannot offer TLS with its files.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// One of them cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key and the certificate do not belong together, or are of no kind that is known.
    #[error("{} and {} cannot be used: {source}", key.display(), certificate.display())]
    Identity {
        /// The file with the key.
        key: PathBuf,
        /// The file with the certificate.
        certificate: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// A whole file, of at most 4 MiB.
///
/// # Errors
/// [`FileError::Read`].
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let bounded = || {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(LONGEST_FILE + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST_FILE {
            return Err(io::Error::other(format!("more than {LONGEST_FILE} bytes")));
        }
        Ok(bytes)
    };
    bounded().map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The certificates in PEM, at least one. The path stands in errors.
///
/// # Errors
/// [`FileError::Pem`].
pub fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let error = |source| FileError::pem(path, "certificate", source);
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(error)?;
    if found.is_empty() {
        return Err(error(pem::Error::NoItemsFound));
    }
    Ok(found)
}

/// The first private key in PEM (PKCS#8, PKCS#1 or SEC1, not encrypted). The path stands in errors.
///
/// # Errors
/// [`FileError::Pem`].
pub fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|source| FileError::pem(path, "private key", source))
}

/// What a server needs that shows this certificate (with those between it and its authority behind it) and asks its clients
/// for none. Each file is its path and what is in it.
///
/// # Errors
/// [`ServerError`].
pub fn server(
    certificate: (&Path, &[u8]),
    key: (&Path, &[u8]),
) -> Result<ServerConfig, ServerError> {
    let identity = |source| ServerError::Identity {
        key: key.0.to_owned(),
        certificate: certificate.0.to_owned(),
        source,
    };
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(identity)?
        .with_no_client_auth()
        .with_single_cert(
            certificates(certificate.0, certificate.1)?,
            private_key(key.0, key.1)?,
        )
        .map_err(identity)
}

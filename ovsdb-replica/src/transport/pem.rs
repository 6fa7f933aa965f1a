//! Keys and certificates in PEM files.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject},
};

/// The longest file that is read, in bytes: ten times the certificate authorities of a system.
const LONGEST_FILE: u64 = 4 << 20;

/// Why a file with keys or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has no PEM of the expected kind.
    #[error("{} holds no usable {what}: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The expected kind.
        what: &'static str,
        /// The reason.
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

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let error = |source| FileError::pem(path, "certificate", source);
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(error)?;
    if found.is_empty() {
        return Err(error(pem::Error::NoItemsFound));
    }
    Ok(found)
}

/// The first private key of a file: PKCS#8, PKCS#1 or SEC1, not encrypted.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|source| FileError::pem(path, "private key", source))
}

/// A whole file, of at most [`LONGEST_FILE`].
fn read(path: &Path) -> Result<Vec<u8>, FileError> {
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

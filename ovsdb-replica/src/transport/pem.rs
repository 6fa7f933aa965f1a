//! Keys and certificates in PEM files.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject},
};

use super::TlsError;

/// The longest file that is read, in bytes: ten times the certificate authorities of a system.
const LONGEST_FILE: u64 = 4 << 20;

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unusable(path, "certificate", &pem::Error::NoItemsFound)),
        Err(error) => Err(unusable(path, "certificate", &error)),
    }
}

/// The first private key of a file: PKCS#8, PKCS#1 or SEC1, not encrypted.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|error| unusable(path, "private key", &error))
}

fn unusable(path: &Path, what: &str, error: &pem::Error) -> TlsError {
    TlsError(format!(
        "{} holds no usable {what}: {error}",
        path.display()
    ))
}

/// A whole file, of at most [`LONGEST_FILE`].
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
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
    bounded().map_err(|error| TlsError(format!("cannot read {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_what_it_should_hold_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let words = |error: FileError| error.to_string();
        assert!(words(certificates(&path).unwrap_err()).starts_with("cannot read "));
        std::fs::write(&path, "nothing").unwrap();
        let name = path.display();
        let error = words(certificates(&path).unwrap_err());
        assert!(error.starts_with(&format!("{name} holds no usable certificate")));
        let error = words(private_key(&path).unwrap_err());
        assert!(error.starts_with(&format!("{name} holds no usable private key")));
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let length = usize::try_from(LONGEST_FILE).unwrap() + 1;
        std::fs::write(&path, vec![b'x'; length]).unwrap();
        let error = certificates(&path).unwrap_err().to_string();
        assert!(error.contains("more than 4194304 bytes"), "{error}");
    }
}

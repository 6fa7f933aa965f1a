//! Keys and certificates for a test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// An authority, and the folder of its certificate and those that it signs.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// The files of one side.
#[derive(Clone, Debug)]
pub struct Side {
    /// `NAME-key.pem`.
    pub key: PathBuf,
    /// `NAME-cert.pem`.
    pub certificate: PathBuf,
    /// `ca.pem`: the trusted authority.
    pub ca: PathBuf,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Validity {
    Now,
    Past,
}

impl Authority {
    /// A new one, which replaces the `ca.pem` of the folder.
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, folder.display().to_string());
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        fs::write(folder.join("ca.pem"), issuer.pem()).expect("its file");
        let folder = folder.to_owned();
        Self { issuer, folder }
    }

    /// Signs a new key, and replaces the files `NAME-key.pem` and `NAME-cert.pem`. `names` are the names in the
    /// certificate.
    pub fn sign(&self, name: &str, names: &[&str], validity: Validity) -> Side {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        if validity == Validity::Past {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 2);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let path = |what: &str| self.folder.join(format!("{name}-{what}.pem"));
        let side = Side {
            key: path("key"),
            certificate: path("cert"),
            ca: self.folder.join("ca.pem"),
        };
        replace(&side.key, &key.serialize_pem());
        replace(&side.certificate, &certificate.pem());
        side
    }
}

/// Writes a file, and lets it be at least a second newer than the one before: ovsdb-server compares the times of its
/// files in whole seconds.
fn replace(path: &Path, text: &str) {
    let before = fs::metadata(path).and_then(|known| known.modified());
    fs::write(path, text).expect("a file");
    if let Ok(before) = before {
        let later = SystemTime::now().max(before + Duration::from_secs(1));
        let file = File::options().write(true).open(path).expect("the file");
        file.set_modified(later).expect("its time");
    }
}

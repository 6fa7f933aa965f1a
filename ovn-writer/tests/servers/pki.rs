//! Keys and certificates for a test.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ovn_writer::ovsdb::{TlsIdentity, TlsOptions, Verify};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// An authority, and the folder in which its certificate and those that it signs are.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// The files of one side.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) key: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) ca: PathBuf,
}

/// Whether a certificate holds now.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Validity {
    Now,
    Past,
}

impl Authority {
    /// A new one, which replaces the `ca.pem` of the folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, folder.display().to_string());
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        let folder = folder.to_owned();
        Self { issuer, folder }
    }

    /// Signs a new key, and replaces the files `NAME-key.pem` and `NAME-cert.pem`. `names` are those that the certificate is for.
    pub(crate) fn sign(&self, name: &str, names: &[&str], validity: Validity) -> Side {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if validity == Validity::Past {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 2);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let side = Side::in_folder(&self.folder, name);
        fs::write(&side.key, key.serialize_pem()).unwrap();
        fs::write(&side.certificate, certificate.pem()).unwrap();
        side
    }
}

impl Side {
    fn in_folder(folder: &Path, name: &str) -> Self {
        Self {
            key: folder.join(format!("{name}-key.pem")),
            certificate: folder.join(format!("{name}-cert.pem")),
            ca: folder.join("ca.pem"),
        }
    }

    /// What a client with these files is told.
    pub(crate) fn options(&self, verify: Verify) -> TlsOptions {
        TlsOptions {
            ca_cert: self.ca.clone(),
            identity: Some(TlsIdentity {
                private_key: self.key.clone(),
                certificate: self.certificate.clone(),
            }),
            verify,
        }
    }

    /// What a server with these files is told.
    pub(crate) fn server_options(&self, remote: &str) -> Vec<String> {
        vec![
            format!("--private-key={}", self.key.display()),
            format!("--certificate={}", self.certificate.display()),
            format!("--ca-cert={}", self.ca.display()),
            format!("--remote={remote}"),
        ]
    }
}

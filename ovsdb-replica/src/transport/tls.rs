//! TLS for `ssl:` remotes (ovsdb(7)): key, certificate and authority in PEM files. They are read again for each
//! connection, so that renewed ones are used without a restart.

use std::{
    fmt, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
        client::{
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
            verify_server_cert_signed_by_trust_anchor,
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
        server::ParsedCertificate,
    },
};

use super::pem::{FileError, certificates, private_key};

/// The trusted authorities, and the client's own certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsOptions {
    /// The authorities that sign the servers' certificates: a PEM file.
    pub ca_cert: PathBuf,
    /// The client's certificate. OVSDB servers request one by default.
    pub identity: Option<TlsIdentity>,
}

/// The client's own files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsIdentity {
    /// Its key: a PEM file (PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub private_key: PathBuf,
    /// Its certificate, followed by the intermediate ones: a PEM file.
    pub certificate: PathBuf,
}

/// Why TLS cannot be set up with the current files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No authority was given.
    #[error("an ssl: remote needs the certificate of an authority")]
    NotConfigured,
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file has certificates, but none of an authority.
    #[error("{} has no certificate of an authority", .0.display())]
    NoAuthority(PathBuf),
    /// The key does not match the certificate, or their type is not supported.
    #[error("{} and {} cannot be used: {source}", identity.private_key.display(), identity.certificate.display())]
    Identity {
        /// The files.
        identity: TlsIdentity,
        /// The reason.
        source: rustls::Error,
    },
    /// The TLS library cannot be set up.
    #[error("cannot set TLS up: {0}")]
    Setup(String),
    /// The server's host name cannot be in a certificate.
    #[error("{0:?} cannot be a name in a certificate")]
    Name(String),
    /// A thread that reads files failed.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// A prepared handshake.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Handshake {
    /// Reads the files, for a connection to this host.
    pub(super) async fn prepare(options: &TlsOptions, host: &str) -> Result<Self, TlsError> {
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.to_owned())
                .map_err(|_| TlsError::Name(host.to_owned()))?,
        };
        let options = options.clone();
        let config = spawn_blocking(move || client_config(&options)).await??;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Self { connector, name })
    }

    /// Performs the handshake.
    pub(super) async fn make(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name, stream).await
    }
}

fn client_config(options: &TlsOptions) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(&options.ca_cert)?);
    let verifier = Arc::new(ChainVerifier {
        roots,
        provider: provider.clone(),
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(identity) = &options.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let key = private_key(&identity.private_key)?;
    let certificates = certificates(&identity.certificate)?;
    builder
        .with_client_auth_cert(certificates, key)
        .map_err(|source| TlsError::Identity {
            identity: identity.clone(),
            source,
        })
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (usable, others) = roots.add_parsable_certificates(certificates(path)?);
    if others > 0 {
        tracing::debug!(usable, others, path = %path.display(), "some certificates are not of an authority");
    }
    if usable == 0 {
        return Err(TlsError::NoAuthority(path.to_owned()));
    }
    Ok(roots)
}

/// Checks that an authority signed the certificate, an X.509 version 3 certificate as `ovs-pki` makes them, and its validity
/// period. Programs of Open vSwitch check the same, since their certificates seldom name a host.
struct ChainVerifier {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for ChainVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChainVerifier")
    }
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

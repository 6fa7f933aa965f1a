//! TLS as OVSDB has it (ovsdb(7), `ssl:`): key, certificate and authority in PEM files, which are read anew for each
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
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
            verify_server_cert_signed_by_trust_anchor,
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
        server::ParsedCertificate,
    },
};

use super::pem::{FileError, certificates, private_key};

/// Which authorities are trusted, and what is shown to servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsOptions {
    /// The authorities that sign the servers' certificates: a PEM file.
    pub ca_cert: PathBuf,
    /// What is shown to servers that ask for a client's certificate, as OVSDB servers do unless told otherwise.
    pub identity: Option<TlsIdentity>,
    /// What of a server's certificate must be right.
    pub verify: Verify,
}

/// The client's own files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsIdentity {
    /// Its key: a PEM file (PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub private_key: PathBuf,
    /// Its certificate, with those between it and the authority behind it: a PEM file.
    pub certificate: PathBuf,
}

/// What of a server's certificate must be right, apart from its times. In either case it must be an X.509 certificate of
/// version 3, as `ovs-pki` makes them, and no authority's.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verify {
    /// That the authority signed it, as programs of Open vSwitch verify it: their certificates seldom name a host.
    #[default]
    Chain,
    /// That the authority signed it for the host that the remote names.
    Full,
}

/// Why there can be no TLS with the files as they are.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No authority was given.
    #[error("an ssl: remote needs the certificate of an authority")]
    NotConfigured,
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds certificates, and none of them can be an authority's.
    #[error("{} holds no certificate that an authority can have", .0.display())]
    NoAuthority(PathBuf),
    /// The key and the certificate do not belong together, or are of no kind that is known.
    #[error("{} and {} cannot be used: {source}", identity.private_key.display(), identity.certificate.display())]
    Identity {
        /// Which.
        identity: TlsIdentity,
        /// Why.
        source: rustls::Error,
    },
    /// The library cannot be set up.
    #[error("cannot set TLS up: {0}")]
    Setup(String),
    /// The name of a server is none that a certificate can have.
    #[error("{0:?} is no name that a certificate can have")]
    Name(String),
    /// A thread that reads files could not be had.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// A handshake to be made.
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

    /// Makes it.
    pub(super) async fn make(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name, stream).await
    }
}

fn client_config(options: &TlsOptions) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(&options.ca_cert)?);
    let verifier: Arc<dyn ServerCertVerifier> = match options.verify {
        Verify::Chain => Arc::new(ChainVerifier {
            roots,
            provider: provider.clone(),
        }),
        Verify::Full => WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| TlsError::Setup(error.to_string()))?,
    };
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
        tracing::debug!(usable, others, path = %path.display(), "some certificates are no authority's");
    }
    if usable == 0 {
        return Err(TlsError::NoAuthority(path.to_owned()));
    }
    Ok(roots)
}

/// Verifies all but the name.
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

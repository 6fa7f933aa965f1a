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
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
            verify_server_cert_signed_by_trust_anchor,
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
        server::ParsedCertificate,
    },
};

use super::pem::{certificates, private_key};

/// The trusted authorities, and the client's own certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsOptions {
    /// The authorities that sign the servers' certificates: a PEM file.
    pub ca_cert: PathBuf,
    /// The client's certificate. OVSDB servers request one by default.
    pub identity: Option<TlsIdentity>,
    /// The checks of a server's certificate.
    pub verify: Verify,
}

/// The client's own files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsIdentity {
    /// Its key: a PEM file (PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub private_key: PathBuf,
    /// Its certificate, followed by the intermediate ones: a PEM file.
    pub certificate: PathBuf,
}

/// The checks of a server's certificate, apart from its validity period. It must be an X.509 version 3 certificate, as
/// `ovs-pki` makes them, and not of an authority.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verify {
    /// The authority must have signed it. Programs of Open vSwitch check the same, since their certificates seldom name
    /// a host.
    #[default]
    Chain,
    /// The authority must have signed it for the host in the remote.
    Full,
}

/// Why TLS cannot be set up with the current files.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);

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
            Err(_) => ServerName::try_from(host.to_owned()).map_err(|_| {
                TlsError(format!("{host:?} is no name that a certificate can have"))
            })?,
        };
        let options = options.clone();
        let config = spawn_blocking(move || client_config(&options))
            .await
            .map_err(|error| TlsError(format!("a worker thread failed: {error}")))??;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Self { connector, name })
    }

    /// Performs the handshake.
    pub(super) async fn make(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name, stream).await
    }
}

fn client_config(options: &TlsOptions) -> Result<ClientConfig, TlsError> {
    let setup = |error: &dyn fmt::Display| TlsError(format!("cannot set TLS up: {error}"));
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(&options.ca_cert)?);
    let verifier: Arc<dyn ServerCertVerifier> = match options.verify {
        Verify::Chain => Arc::new(ChainVerifier {
            roots,
            provider: provider.clone(),
        }),
        Verify::Full => WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| setup(&error))?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| setup(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(identity) = &options.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let key = private_key(&identity.private_key)?;
    let certificates = certificates(&identity.certificate)?;
    builder
        .with_client_auth_cert(certificates, key)
        .map_err(|error| {
            let (key, certificate) = (&identity.private_key, &identity.certificate);
            let (key, certificate) = (key.display(), certificate.display());
            TlsError(format!("{key} and {certificate} cannot be used: {error}"))
        })
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (usable, others) = roots.add_parsable_certificates(certificates(path)?);
    if others > 0 {
        tracing::debug!(usable, others, path = %path.display(), "some certificates are not of an authority");
    }
    if usable == 0 {
        let path = path.display();
        let words = format!("{path} holds no certificate that an authority can have");
        return Err(TlsError(words));
    }
    Ok(roots)
}

/// Checks everything but the name.
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

//! TLS with real servers.

use std::{fs, time::Duration};

use ovn_writer::address_set::{AddressSet, NORTHBOUND};
use ovsdb_replica::{Client, ClientOptions, Error, Event, TlsIdentity, TlsOptions, TransportError};
use tests::{
    ovsdb_server::{self, OvsdbServer, create},
    pki::{Authority, Side, Validity},
    wait::PATIENCE,
    workdir::Workdir,
};
use tokio::time::timeout;

type Follower = Client<AddressSet>;

/// The options of a client with these files.
fn options(side: &Side) -> TlsOptions {
    TlsOptions {
        ca_cert: side.ca.clone(),
        identity: Some(TlsIdentity {
            private_key: side.key.clone(),
            certificate: side.certificate.clone(),
        }),
    }
}

/// A server that requires certificates and has one.
struct Secured {
    _server: OvsdbServer,
    port: u16,
    _workdir: Workdir,
}

impl Secured {
    async fn start(workdir: Workdir, side: &Side) -> Self {
        create(workdir.path(), "nb", ovsdb_server::NORTHBOUND);
        let options = [
            format!("--private-key={}", side.key.display()),
            format!("--certificate={}", side.certificate.display()),
            format!("--ca-cert={}", side.ca.display()),
            "--remote=pssl:0:127.0.0.1".to_owned(),
        ];
        let server = OvsdbServer::start(workdir.path(), "nb", &options).await;
        let port = server.port().await;
        Self {
            _server: server,
            port,
            _workdir: workdir,
        }
    }

    fn client(&self, tls: TlsOptions) -> Follower {
        client_at(&format!("127.0.0.1:{}", self.port), Some(tls))
    }
}

fn client_at(address: &str, tls: Option<TlsOptions>) -> Follower {
    let mut options = ClientOptions::new(NORTHBOUND);
    options.session.transport.tls = tls;
    options.session.transport.connect_timeout = Duration::from_secs(2);
    Client::new(&format!("ssl:{address}").parse().unwrap(), options)
}

/// Waits for a failed attempt.
async fn down(client: &mut Follower) -> Error {
    loop {
        if let Event::Down { error, .. } = timeout(PATIENCE, client.next()).await.unwrap() {
            return error;
        }
    }
}

async fn refusal(client: &mut Follower) -> String {
    down(client).await.to_string()
}

#[tokio::test]
async fn untrusted_certificate_is_refused_by_name() {
    let workdir = Workdir::new();
    let authority = Authority::new(workdir.path());
    let server = authority.sign("server", &[], Validity::Now);
    let client = authority.sign("client", &[], Validity::Now);
    let others = Workdir::new();
    let other = Authority::new(others.path()).sign("client", &[], Validity::Now);
    let secured = Secured::start(workdir, &server).await;

    // The client does not know the authority of the server's certificate.
    let refused = refusal(&mut secured.client(options(&other))).await;
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    // The server does not know the authority of the client's certificate.
    let mut stranger = options(&other);
    stranger.ca_cert = client.ca.clone();
    let refused = refusal(&mut secured.client(stranger)).await;
    assert!(refused.contains("alert"), "{refused}");
    // The client shows no certificate.
    let mut nobody = options(&client);
    nobody.identity = None;
    let refused = refusal(&mut secured.client(nobody)).await;
    assert!(
        refused.contains("alert") || refused.contains("lost"),
        "{refused}"
    );
    // No files at all.
    let nothing = client_at(&format!("127.0.0.1:{}", secured.port), None);
    let refused = refusal(&mut { nothing }).await;
    assert!(
        refused.contains("needs the certificate of an authority"),
        "{refused}"
    );
}

#[tokio::test]
async fn expired_certificates_are_said_to_be_expired_and_renewed_ones_taken() {
    let workdir = Workdir::new();
    let authority = Authority::new(workdir.path());
    let server = authority.sign("server", &[], Validity::Past);
    let client = authority.sign("client", &[], Validity::Past);
    let secured = Secured::start(workdir, &server).await;
    let mut follower = secured.client(options(&client));
    let refused = refusal(&mut follower).await;
    assert!(refused.contains("certificate expired"), "{refused}");
    // The server reads its files again, too. If one of the two is still old when it looks, it waits for the next change of both.
    let server_is_renewed = async {
        loop {
            authority.sign("server", &[], Validity::Now);
            let refused = refusal(&mut follower).await;
            if !refused.contains("certificate expired:") {
                break refused;
            }
        }
    };
    let refused = timeout(PATIENCE, server_is_renewed).await.unwrap();
    assert!(refused.contains("alert"), "{refused}");
    authority.sign("client", &[], Validity::Now);
    let up = async { while !matches!(follower.next().await, Event::Up { .. }) {} };
    timeout(PATIENCE, up).await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let workdir = Workdir::new();
    let authority = Authority::new(workdir.path());
    let other = authority.sign("other", &[], Validity::Now).key;
    let good = options(&authority.sign("client", &[], Validity::Now));
    let file = |name: &str, content: &[u8]| {
        let file = workdir.join(name);
        fs::write(&file, content).unwrap();
        file
    };
    let missing = workdir.join("missing.pem");
    let empty = file("empty.pem", b"");
    let garbage = file(
        "garbage.pem",
        b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    );
    let long = file("long.pem", &vec![b'x'; 5 << 20]);
    let hollow = file(
        "hollow.pem",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let mut cases = Vec::new();
    for (path, words) in [
        (&missing, "missing.pem: No such file"),
        (&empty, "empty.pem holds no usable certificate"),
        (&garbage, "garbage.pem holds no usable certificate"),
        (&long, "long.pem: more than 4194304 bytes"),
        (&hollow, "hollow.pem has no certificate of an authority"),
    ] {
        let mut options = good.clone();
        options.ca_cert = path.clone();
        cases.push((options, words));
    }
    for (path, words) in [
        (&missing, "missing.pem: No such file"),
        (&empty, "empty.pem holds no usable private key"),
        (&good.ca_cert, "ca.pem holds no usable private key"),
        // As in the middle of a renewal.
        (&other, "cannot be used: keys may not be consistent"),
    ] {
        let mut options = good.clone();
        options.identity.as_mut().unwrap().private_key = path.clone();
        cases.push((options, words));
    }
    for (options, words) in cases {
        // There is no listener: the files are read first.
        let error = down(&mut client_at("127.0.0.1:1", Some(options))).await;
        assert!(
            matches!(error, Error::Connect(TransportError::Tls(_)))
                && error.to_string().contains(words),
            "{words}: {error}"
        );
    }
}

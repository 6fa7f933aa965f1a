//! The examples work against real servers.

#[path = "../../examples/cluster.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod cluster;
#[path = "../../examples/quickstart.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod quickstart;
#[path = "../../examples/tls.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod tls;

use std::{fs, path::Path, process::Command};

use ovsdb_replica::{TlsIdentity, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::server::{DATABASE, Server, ran, schema, standalone, until, within};

#[test]
fn the_readme_shows_the_example_that_is_tested() {
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("```rust\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(include_str!("../../examples/quickstart.rs").contains(shown));
}

#[tokio::test]
async fn the_quickstart_makes_a_set_and_finds_it_when_it_runs_again() {
    let (_folder, server) = standalone(&[]);
    for _ in 0..2 {
        assert_eq!(
            within(quickstart::make_set(&server.remote(), "a".to_owned()))
                .await
                .unwrap(),
            1
        );
    }
    assert_eq!(
        within(quickstart::make_set(&server.remote(), "b".to_owned()))
            .await
            .unwrap(),
        2
    );
}

#[tokio::test]
async fn the_quickstart_says_which_column_the_schema_lacks() {
    let (folder, server) = standalone(&[]);
    drop(server);
    let schema = fs::read_to_string(schema(folder.path())).unwrap();
    fs::write(
        folder.path().join("schema.json"),
        schema
            .replace("\"name\":{", "\"label\":{")
            .replace("[\"name\"]", "[\"label\"]"),
    )
    .unwrap();
    let database = folder.path().join("other.db");
    let mut tool = Command::new("ovsdb-tool");
    assert!(ran(tool
        .arg("create")
        .arg(database)
        .arg(folder.path().join("schema.json"))));
    let server = Server::start(folder.path(), "other", &[]);
    let error = within(quickstart::make_set(&server.remote(), "a".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the schema of OVN_Northbound 1.0.0 has no column Address_Set.name"
    );
}

#[tokio::test]
async fn a_cluster_is_followed_by_its_leader_and_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let address = |n: usize| format!("unix:{}", folder.join(format!("{n}.raft")).display());
    let database = |n: usize| folder.join(format!("{n}.db"));
    let mut tool = Command::new("ovsdb-tool");
    tool.arg("create-cluster")
        .arg(database(1))
        .arg(schema(folder))
        .arg(address(1));
    assert!(ran(&mut tool));
    let mut servers = vec![Server::start(folder, "1", &[])];
    for n in 2..=3 {
        let mut tool = Command::new("ovsdb-tool");
        tool.arg("join-cluster")
            .arg(database(n))
            .args([DATABASE, &address(n), &address(1)]);
        assert!(ran(&mut tool));
        servers.push(Server::start(folder, &n.to_string(), &[]));
    }
    let remotes: Vec<_> = servers.iter().map(Server::remote).collect();
    let remotes = remotes.join(",");
    assert_eq!(
        within(quickstart::make_set(&remotes, "a".to_owned()))
            .await
            .unwrap(),
        1
    );
    within(cluster::follow(&remotes, |sets| sets == 1))
        .await
        .unwrap();
    // The first server leads, as the others joined it.
    drop(servers.remove(0));
    assert_eq!(
        within(quickstart::make_set(&remotes, "b".to_owned()))
            .await
            .unwrap(),
        2
    );
    within(cluster::follow(&remotes, |sets| sets == 2))
        .await
        .unwrap();
}

/// Writes a key and a certificate of this name, signed by the authority.
fn certify(folder: &Path, name: &str, authority: &Issuer<'_, KeyPair>) -> TlsIdentity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let signed = params.signed_by(&key, authority).unwrap();
    let [private_key, certificate] =
        ["key", "cert"].map(|kind| folder.join(format!("{name}-{kind}.pem")));
    fs::write(&private_key, key.serialize_pem()).unwrap();
    fs::write(&certificate, signed.pem()).unwrap();
    TlsIdentity {
        private_key,
        certificate,
    }
}

#[tokio::test]
async fn a_server_is_read_over_tls() {
    let files = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_cert = files.path().join("ca.pem");
    fs::write(&ca_cert, params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    let of_server = certify(files.path(), "server", &authority);
    let options = [
        "--remote=pssl:0:127.0.0.1".to_owned(),
        format!("--private-key={}", of_server.private_key.display()),
        format!("--certificate={}", of_server.certificate.display()),
        format!("--ca-cert={}", ca_cert.display()),
    ];
    let (folder, server) = standalone(&options);
    within(quickstart::make_set(&server.remote(), "a".to_owned()))
        .await
        .unwrap();
    let log = folder.path().join("nb.log");
    let port = || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let (_, rest) = log.split_once("listening on port ")?;
        rest.split_once('\n')
            .map(|(port, _)| port.trim().to_owned())
    };
    until("the server listens", || port().is_some());
    let tls = TlsOptions {
        ca_cert,
        identity: Some(certify(files.path(), "client", &authority)),
    };
    let remote = format!("ssl:127.0.0.1:{}", port().unwrap());
    assert_eq!(within(tls::count(&remote, tls)).await.unwrap(), 1);
}

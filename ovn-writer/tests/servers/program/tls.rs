//! The program's TLS flags.

use tests::{store::Store, workdir::Workdir};

use super::{expect_at, says, start};
use crate::{
    pki::{Authority, Options, Validity},
    tls::Secured,
};

const W: &str = "www.example.com.";

#[tokio::test]
async fn certificates_may_expire_and_be_replaced_while_the_program_runs() {
    let workdir = Workdir::new();
    let first = Authority::new(workdir.path());
    let server = first.sign("server", &[], Validity::Now);
    let client = first.sign("client", &[], Validity::Past);
    let mut secured = Secured::start(workdir, &server).await;
    let folder = secured.workdir.path().to_owned();
    let store = Store::new(folder.join("store"));
    store.write_status(W, &["10.0.0.1"]);
    let remote = format!("ssl:127.0.0.1:{}", secured.port);
    let files =
        [&client.key, &client.certificate, &client.ca].map(|file| file.display().to_string());
    let flags = [
        "--private-key",
        &files[0],
        "--certificate",
        &files[1],
        "--ca-cert",
        &files[2],
    ];
    let program = start(&folder, &store, &remote, &flags).await;
    says(&program, "alert").await;
    first.sign("client", &[], Validity::Now);
    expect_at(&folder, W, "10.0.0.1").await;
    program.ready().await;

    // Both certificates are renewed by another authority. The existing session continues.
    let second = Authority::new(&folder);
    second.sign("server", &[], Validity::Past);
    second.sign("client", &[], Validity::Now);
    store.write_status(W, &["10.0.0.2"]);
    expect_at(&folder, W, "10.0.0.2").await;
    let port = secured.port;
    secured.server.process.kill();
    let options = server.server_options(&format!("pssl:{port}:127.0.0.1"));
    secured.server = crate::server::Server::start(&folder, "nb", &options).await;
    says(&program, "certificate expired").await;
    second.sign("server", &[], Validity::Now);
    store.write_status(W, &["10.0.0.3"]);
    expect_at(&folder, W, "10.0.0.3").await;
    program.ready().await;
}

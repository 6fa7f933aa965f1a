//! A network that loses every packet, with the default flags.

use std::time::Duration;

use tests::{or_skip, store::Store, wait::eventually_within, workdir::Workdir};

use super::expect_at;
use crate::{namespace::Apart, server::create};

const W: &str = "www.example.com.";

#[tokio::test]
async fn a_cut_network_is_noticed_and_the_writer_catches_up() {
    let workdir = Workdir::new();
    create(workdir.path(), "nb", |_| {});
    let server = or_skip!(Apart::start(workdir.path(), "nb").await);
    server.reachable().await;
    let store = Store::new(workdir.join("store"));
    store.write_status(W, &["10.0.0.1"]);
    let program = super::start(workdir.path(), &store, &server.remote(), &[]).await;
    program.ready().await;
    // The unix socket does not use the network.
    expect_at(workdir.path(), W, "10.0.0.1").await;
    server.plug(false);
    let cut = tokio::time::Instant::now();
    store.write_status(W, &["10.0.0.2"]);
    eventually_within(
        Duration::from_secs(20),
        "it is noticed",
        async || match program.admin().ready().await {
            Err(text) if text.contains("northbound: ") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    println!("a cut was noticed after {:?}", cut.elapsed());
    store.write_status(W, &["10.0.0.3"]);
    server.plug(true);
    expect_at(workdir.path(), W, "10.0.0.3").await;
    program.ready().await;
}

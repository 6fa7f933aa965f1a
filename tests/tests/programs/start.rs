//! The start of the programs.

use tests::{
    northbound::Northbound, store::Store, wait::eventually, workdir::Workdir,
    world::start_ovn_writer,
};

#[tokio::test]
async fn the_northbound_database_may_come_later_and_readyz_says_what_is_awaited() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    let writer = start_ovn_writer(&workdir, &store).await;
    let words = eventually("/readyz says why", async || {
        match writer.admin().get("/readyz").await {
            Ok((503, body)) if body.contains("nb.sock") => Ok(body),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(words.contains("not ready"), "{words}");
    assert_eq!(writer.admin().get("/livez").await.unwrap().0, 200);
    let _northbound = Northbound::start(workdir.path()).await;
    writer.ready().await;
}

//! The path from a store to the rows.

use proto::api::Family::{V4, V6};
use runtime::store::Event;

use crate::harness::{Database, RunningWriter, deleted, object};

const W: &str = "www.example.com.";

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_made_changed_and_deleted_with_their_object() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1", "2001:db8::1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    database.expect(W, V6, &["2001:db8::1"]).await;
    let row = database.row(W, V4);
    assert_eq!(row.name, "a4029995183407368296");
    let id = |key: &str| row.external_ids.get(key).map(String::as_str);
    assert_eq!(
        id("k8s.ovn.org/owner-controller"),
        Some("default-network-controller")
    );
    assert_eq!(
        id("k8s.ovn.org/id"),
        Some("default-network-controller:EgressFirewallDNS:www.example.com.:v4")
    );
    for addresses in [&["10.0.0.1", "10.0.0.2"][..], &["10.0.0.2"], &["10.0.0.3"]] {
        writer.applied(W, addresses).await;
        database.expect(W, V4, addresses).await;
    }
    database.expect(W, V6, &[]).await;
    assert_eq!(database.row(W, V4).uuid, row.uuid, "the row stays the same");
    writer.store(deleted(W)).await;
    for family in [V4, V6] {
        database
            .expect_rows("no row", W, family, |rows| rows.is_empty())
            .await;
    }
    writer.applied(W, &["10.0.0.9"]).await;
    database.expect(W, V4, &["10.0.0.9"]).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_of_a_thousand_addresses_and_of_one() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    let addresses: Vec<_> = (0..1000)
        .map(|n| format!("10.1.{}.{}", n / 250, n % 250))
        .collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    writer
        .store(Event::Synced(vec![object(W, &addresses)]))
        .await;
    database.expect(W, V4, &addresses).await;
    writer.applied(W, &addresses[..999]).await;
    database.expect(W, V4, &addresses[..999]).await;
    writer.applied(W, &addresses[7..8]).await;
    database.expect(W, V4, &addresses[7..8]).await;
    writer.applied(W, &addresses).await;
    database.expect(W, V4, &addresses).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_over_both_families_and_by_name() {
    for (address, host) in [("127.0.0.1", "localhost"), ("[::1]", "[::1]")] {
        let mut database = Database::start().await;
        let remote = database.listen(address).await.replace(address, host);
        let remotes = format!("unix:/nowhere/nb.sock,{remote}");
        let writer = RunningWriter::start(&remotes);
        writer
            .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
            .await;
        database.expect(W, V4, &["10.0.0.1"]).await;
        writer.stop().await;
    }
}

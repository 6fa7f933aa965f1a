//! The path from a store to the rows.

use proto::api::Family::{V4, V6};
use runtime::store::Event;
use tests::{northbound::Northbound, wait::eventually, workdir::Workdir};

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
async fn a_server_may_come_later() {
    let workdir = Workdir::new();
    let writer = RunningWriter::start(&tests::northbound::remote(workdir.path()));
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    let northbound = Northbound::start(workdir.path()).await;
    let database = Database {
        northbound,
        workdir,
    };
    database.expect(W, V4, &["10.0.0.1"]).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_others_are_used_and_neither_emptied_nor_deleted() {
    let database = Database::start().await;
    database
        .northbound
        .create_set("a4029995183407368296", W, V4, "10.0.0.7");
    database.northbound.create_set("ablue", W, V4, "[]");
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database
        .expect_rows("both hold the address alone", W, V4, |rows| {
            rows.len() == 2 && rows.iter().all(|r| r.addresses.iter().eq(["10.0.0.1"]))
        })
        .await;
    database.expect(W, V6, &[]).await;
    writer.store(deleted(W)).await;
    database
        .expect_rows("ours is deleted", W, V6, |rows| rows.is_empty())
        .await;
    database
        .expect_rows("theirs stay", W, V4, |rows| {
            rows.len() == 2 && rows.iter().all(|r| r.addresses.iter().eq(["10.0.0.1"]))
        })
        .await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_under_the_name_as_written_keeps_what_its_owner_found() {
    let database = Database::start().await;
    let written = "WWW.example.com";
    database
        .northbound
        .create_set("a1", written, V4, "10.0.0.7");
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1", "10.0.0.2"])]))
        .await;
    database
        .expect(written, V4, &["10.0.0.1", "10.0.0.2", "10.0.0.7"])
        .await;
    writer.applied(W, &["10.0.0.1"]).await;
    database
        .expect(written, V4, &["10.0.0.1", "10.0.0.7"])
        .await;
    assert!(
        database.northbound.sets(W, V4).unwrap().is_empty(),
        "a second row for the name"
    );
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_changes_is_put_right() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1", "10.0.0.2"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1", "10.0.0.2"]).await;
    let nbctl = |args: &[&str]| database.northbound.nbctl(args).unwrap();
    for _ in 0..3 {
        let uuid = database.row(W, V4).uuid;
        nbctl(&["set", "Address_Set", &uuid, "addresses=10.0.0.2,10.6.6.6"]);
        database.expect(W, V4, &["10.0.0.1", "10.0.0.2"]).await;
        nbctl(&["clear", "Address_Set", &uuid, "addresses"]);
        database.expect(W, V4, &["10.0.0.1", "10.0.0.2"]).await;
        nbctl(&["destroy", "Address_Set", &uuid]);
        database.expect(W, V4, &["10.0.0.1", "10.0.0.2"]).await;
        assert_ne!(database.row(W, V4).uuid, uuid);
    }
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_empties_nothing() {
    let database = Database::start().await;
    database.northbound.create_set("a1", W, V4, "10.0.0.7");
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object("other.example.", &["10.0.0.1"])]))
        .await;
    // Once this one is there, the first read has been handled.
    database.expect("other.example.", V4, &["10.0.0.1"]).await;
    database.expect(W, V4, &["10.0.0.7"]).await;
    // The object arrives, but its name has not been looked up yet.
    writer.applied(W, &[]).await;
    database.expect(W, V6, &[]).await;
    database.expect(W, V4, &["10.0.0.7"]).await;
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
async fn a_clash_of_names_costs_that_name_alone() {
    let database = Database::start().await;
    let clash = [
        "create",
        "Address_Set",
        "name=a4029995183407368296",
        "addresses=10.0.0.7",
    ];
    database.northbound.nbctl(&clash).unwrap();
    let writer = RunningWriter::start(&database.northbound.remote());
    let names: Vec<_> = (0..10).map(|n| format!("n{n}.example.")).collect();
    let mut objects: Vec<_> = names
        .iter()
        .map(|name| object(name, &["10.0.0.1"]))
        .collect();
    objects.insert(5, object(W, &["10.0.0.1"]));
    writer.store(Event::Synced(objects)).await;
    for name in &names {
        database.expect(name, V4, &["10.0.0.1"]).await;
    }
    let rows = database.northbound.rows().unwrap();
    let theirs = rows
        .iter()
        .find(|row| row.name == "a4029995183407368296")
        .unwrap();
    assert!(theirs.external_ids.is_empty() && theirs.addresses.iter().eq(["10.0.0.7"]));
    // The other client deletes its row.
    database
        .northbound
        .nbctl(&["destroy", "Address_Set", &theirs.uuid])
        .unwrap();
    database.expect(W, V4, &["10.0.0.1"]).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_names_are_written_and_cleaned_up() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    let names: Vec<_> = (0..1000).map(|n| format!("n{n}.example.")).collect();
    let objects = names
        .iter()
        .map(|name| object(name, &["10.0.0.1", "2001:db8::1"]));
    writer.store(Event::Synced(objects.collect())).await;
    let rows = |count: usize| {
        let northbound = &database.northbound;
        eventually("that many rows", async move || {
            match northbound.rows()?.len() {
                found if found == count => Ok(()),
                found => Err(format!("{found} of {count}")),
            }
        })
    };
    rows(2000).await;
    writer
        .store(Event::Synced(vec![object(&names[3], &["10.0.0.1"])]))
        .await;
    rows(2).await;
    database.expect(&names[3], V4, &["10.0.0.1"]).await;
    writer.stop().await;
}

//! What is taken away, and what is not.

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER,
    Family::{V4, V6},
    address_set_id, address_set_name,
};
use runtime::store::Event;

use crate::harness::{Database, RunningWriter, STORE, deleted, object};

const W: &str = "www.example.com.";

/// A set that a writer for this store left behind.
fn leave_behind(database: &Database, store: &str, name: &str, address: &str) {
    let id = address_set_id(DEFAULT_NETWORK_CONTROLLER, name, V4);
    let set = address_set_name(&id);
    database.northbound.create_set(&set, name, V4, address);
    let mark = format!("external_ids:ovn-writer/created=\"{store}\"");
    let args = ["set", "Address_Set", &set, &mark];
    database.northbound.nbctl(&args).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_a_rule_names_is_emptied_and_another_one_deleted() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    let named = database.row(W, V4);
    // A longer name that begins alike names another set.
    database.northbound.create_acl(
        "allow",
        2,
        &[&format!("{}0", database.row(W, V6).name)],
        false,
    );
    let acl = database
        .northbound
        .create_acl("allow", 1, &[&named.name], false);
    writer.store(deleted(W)).await;
    database
        .expect_rows("the other one is deleted", W, V6, |rows| rows.is_empty())
        .await;
    let row = database.row(W, V4);
    assert_eq!((row.uuid, row.addresses.len()), (named.uuid, 0));
    database.northbound.remove_acl(&acl);
    database
        .expect_rows("it is deleted", W, V4, |rows| rows.is_empty())
        .await;
    // A rule that comes too late gets its set back, empty; and full with the object.
    database
        .northbound
        .create_acl("allow", 1, &[&named.name], false);
    database.expect(W, V4, &[]).await;
    writer.applied(W, &["10.0.0.2"]).await;
    database.expect(W, V4, &["10.0.0.2"]).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_nat_refers_to_is_emptied() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    let row = database.row(W, V4);
    let nbctl = |args: &[&str]| database.northbound.nbctl(args).unwrap();
    nbctl(&[
        "lr-add",
        "r",
        "--",
        "lr-nat-add",
        "r",
        "snat",
        "192.0.2.1",
        "10.0.0.0/8",
    ]);
    let nat = nbctl(&["--bare", "--columns=_uuid", "list", "NAT"]);
    nbctl(&["set", "NAT", &nat, &format!("allowed_ext_ips={}", row.uuid)]);
    writer.store(deleted(W)).await;
    database
        .expect_rows("the other one is deleted", W, V6, |rows| rows.is_empty())
        .await;
    database.expect(W, V4, &[]).await;
    nbctl(&["clear", "NAT", &nat, "allowed_ext_ips"]);
    database
        .expect_rows("it is deleted", W, V4, |rows| rows.is_empty())
        .await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_list_that_is_empty_or_strange_removes_nothing() {
    for list in [vec![], vec![object("stranger.example.", &["10.0.0.9"])]] {
        let database = Database::start().await;
        leave_behind(&database, STORE, W, "10.0.0.1");
        let writer = RunningWriter::start(&database.northbound.remote());
        writer.store(Event::Synced(list)).await;
        // It is at work, and would have deleted it after 1.5 s: 0.5 s until it is gone, and 1 s unused.
        let start = tokio::time::Instant::now();
        for n in 0..250 {
            let address = format!("10.1.0.{n}");
            writer.applied("fence.example.", &[&address]).await;
            database.expect("fence.example.", V4, &[&address]).await;
            if start.elapsed() > std::time::Duration::from_secs(3) {
                break;
            }
        }
        database.expect(W, V4, &["10.0.0.1"]).await;
        writer
            .doubts("the store lacks 1 of 1 names for which this program made address sets")
            .await;
        writer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_while_no_writer_looked_is_removed_by_the_next_one() {
    let database = Database::start().await;
    leave_behind(&database, STORE, W, "10.0.0.1");
    leave_behind(&database, STORE, "b.example.", "10.0.0.2");
    leave_behind(&database, "kube/other", "c.example.", "10.0.0.3");
    database
        .northbound
        .create_set("ad", "d.example.", V4, "10.0.0.4");
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object("b.example.", &["10.0.0.2"])]))
        .await;
    database
        .expect_rows("it is deleted", W, V4, |rows| rows.is_empty())
        .await;
    for (name, address) in [("b", "10.0.0.2"), ("c", "10.0.0.3"), ("d", "10.0.0.4")] {
        let name = format!("{name}.example.");
        database.expect(&name, V4, &[address]).await;
    }
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_starts_on_a_store_with_one_of_many_names_takes_nothing_out() {
    let database = Database::start().await;
    let whole: Vec<_> = (0..10)
        .map(|n| object(&format!("n{n}.example."), &["10.0.0.1"]))
        .collect();
    let writer = RunningWriter::start(&database.northbound.remote());
    writer.store(Event::Synced(whole.clone())).await;
    writer.ready().await;
    writer.stop().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    // One name of them, and one that no set was ever made for.
    let list = vec![whole[0].clone(), object("stranger.example.", &["10.0.0.9"])];
    writer.store(Event::Synced(list)).await;
    database
        .expect("stranger.example.", V4, &["10.0.0.9"])
        .await;
    writer
        .doubts("the store lacks 9 of 10 names for which this program made address sets")
        .await;
    // It would have been gone after half a second.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for n in 0..10 {
        database
            .expect(&format!("n{n}.example."), V4, &["10.0.0.1"])
            .await;
    }
    // The others come back but for two, which are gone then.
    for object in &whole[1..8] {
        writer.store(Event::Applied(object.clone())).await;
    }
    for n in [8, 9] {
        database
            .expect_rows("it is gone", &format!("n{n}.example."), V4, |rows| {
                rows.is_empty()
            })
            .await;
    }
    writer.ready().await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_everything_is_not_believed() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    let whole = || vec![object(W, &["10.0.0.1"]), object("b.example.", &[])];
    writer.store(Event::Synced(whole())).await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    writer.ready().await;
    writer
        .store(Event::OutOfSync("the folder vanished".into()))
        .await;
    writer.store(Event::Synced(vec![])).await;
    writer
        .doubts("none of the 2 objects that were known is in the store any more")
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    let mut whole = whole();
    whole.pop();
    writer.store(Event::Synced(whole)).await;
    writer.ready().await;
    database
        .expect_rows("the other one is deleted", "b.example.", V4, |rows| {
            rows.is_empty()
        })
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    writer.stop().await;
}

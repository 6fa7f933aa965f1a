//! A database whose address sets ovn-kubernetes manages.

use std::time::{Duration, Instant};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER,
    Family::{self, V4, V6},
    address_set_id, address_set_name,
};
use runtime::store::Event;
use tests::transaction_log;

use crate::harness::{Database, RunningWriter, deleted, object, policy};

const W: &str = "www.example.com.";

/// The name of the set of [`W`].
fn set(family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, W, family))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_missing_for_a_rule_is_created_with_its_addresses_and_no_other() {
    let database = Database::start().await;
    database.northbound.create_namespace_set();
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![
            object(W, &["10.0.0.1", "2001:db8::1"]),
            object("unused.example.", &["10.0.0.2"]),
        ]))
        .await;
    database
        .northbound
        .create_acl("allow", 10000, &[&set(V4)], true);
    database.expect(W, V4, &["10.0.0.1"]).await;
    let row = database.row(W, V4);
    assert_eq!(row.name, set(V4));
    // ovn-kubernetes' clean-up deletes it again.
    let destroy = ["destroy", "Address_Set", &row.uuid];
    database.northbound.nbctl(&destroy).unwrap();
    database.expect(W, V4, &["10.0.0.1"]).await;
    // A set is created with its addresses, and an unreferenced one is not created.
    let updates = transaction_log::read(database.workdir.path());
    let ours = updates.iter().filter(|update| update.comment.is_none());
    let made: Vec<_> = ours
        .flat_map(|update| update.rows.values().flatten())
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(
        made.iter()
            .all(|row| row.is_of(W, V4) && row.addresses.iter().eq(["10.0.0.1"])),
        "{made:?}"
    );
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_making_and_taking_away_is_never_raced() {
    let database = Database::start().await;
    database.northbound.create_namespace_set();
    let fence = "fence.example.";
    database.northbound.create_set("f1", fence, V4, "[]");
    let history = tests::monitor::Monitor::start(database.workdir.path()).await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    // As when an EgressFirewall is created and deleted: the set comes before the rule, and the rule is deleted before
    // the set.
    for _ in 0..3 {
        database.northbound.create_set(&set(V4), W, V4, "10.0.0.1");
        let acl = database
            .northbound
            .create_acl("allow", 10000, &[&set(V4)], true);
        let uuid = database.row(W, V4).uuid;
        database.northbound.remove_acl(&acl);
        let destroy = ["destroy", "Address_Set", &uuid];
        database.northbound.nbctl(&destroy).unwrap();
    }
    // A later name shows that all of that was handled.
    writer.applied(fence, &["10.0.1.1"]).await;
    history.seen(fence, V4, "10.0.1.1").await;
    let made = history.updates();
    let made = made
        .iter()
        .flat_map(|update| update.rows.values().flatten());
    let ours = made.filter(|row| row.external_ids.contains_key("ovn-writer/created"));
    assert_eq!(ours.count(), 0);
    writer.stop().await;
}

/// ovn-kubernetes' measured behaviour. At any difference of a status it replaces the whole column, in one update per
/// family. If the row is equal it sends nothing.
fn ovn_kubernetes_writes(database: &Database, name: &str, addresses: &[&str]) -> bool {
    let mut wrote = false;
    for family in [V4, V6] {
        let is_of = |address: &&&str| address.contains(':') == (family == V6);
        let mut status: Vec<_> = addresses
            .iter()
            .filter(is_of)
            .map(|a| (*a).to_owned())
            .collect();
        status.sort();
        let row = database.row(name, family);
        if !row.addresses.iter().eq(&status) {
            let quoted: Vec<_> = status
                .iter()
                .map(|address| format!("\"{address}\""))
                .collect();
            let column = format!("addresses=[{}]", quoted.join(","));
            let args = ["set", "Address_Set", &row.uuid, &column];
            database.northbound.nbctl(&args).unwrap();
            wrote = true;
        }
    }
    wrote
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_replaces_whole_sets_converges_without_a_storm() {
    let database = Database::start().await;
    database.northbound.create_namespace_set();
    for family in [V4, V6] {
        database
            .northbound
            .create_set(&set(family), W, family, "[]");
    }
    database
        .northbound
        .create_acl("allow", 10000, &[&set(V4)], true);
    let history = tests::monitor::Monitor::start(database.workdir.path()).await;
    let remote = database.northbound.remote();
    // The delay of production.
    let writer = RunningWriter::start_with(&remote, policy(), |writer| writer);
    let all: Vec<_> = (1..=20)
        .flat_map(|n| [format!("10.0.0.{n}"), format!("2001:db8::{n}")])
        .collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    writer.store(Event::Synced(vec![object(W, &[])])).await;
    // It is two statuses behind, as with a slow watch: each of its writes removes the writer's last additions.
    let mut theirs = 0;
    for count in 1..=all.len() {
        writer.applied(W, &all[..count]).await;
        if let Some(behind) = count.checked_sub(2) {
            theirs += usize::from(ovn_kubernetes_writes(&database, W, &all[..behind]));
        }
    }
    for behind in [all.len() - 1, all.len()] {
        theirs += usize::from(ovn_kubernetes_writes(&database, W, &all[..behind]));
    }
    let of = |six: bool| {
        all.iter()
            .copied()
            .filter(|a| a.contains(':') == six)
            .collect::<Vec<_>>()
    };
    database.expect(W, V4, &of(false)).await;
    database.expect(W, V6, &of(true)).await;
    // This must stay so. Each of its writes, and each status, may have caused one of our writes per family.
    assert!(!ovn_kubernetes_writes(&database, W, &all));
    let changes = history.updates().len();
    assert!(
        changes <= 2 * (theirs * 2 + all.len()) + 10,
        "{changes} changes for {theirs} of theirs"
    );

    // The object is created again with an empty status, and ovn-kubernetes empties the sets.
    writer.store(deleted(W)).await;
    writer.applied(W, &[]).await;
    ovn_kubernetes_writes(&database, W, &[]);
    database.expect(W, V4, &of(false)).await;
    writer.applied(W, &all).await;
    ovn_kubernetes_writes(&database, W, &all);
    database.expect(W, V4, &of(false)).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_undoes_everything_is_outlasted_with_one_repair_a_second() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    let history = tests::monitor::Monitor::start(database.workdir.path()).await;
    let uuid = database.row(W, V4).uuid;
    let (start, mut cleared) = (Instant::now(), 0);
    // Each check starts a process, and a busy machine starts few.
    while start.elapsed() < Duration::from_secs(5)
        || cleared < 8 && start.elapsed() < Duration::from_secs(60)
    {
        if !database.row(W, V4).addresses.is_empty() {
            database
                .northbound
                .nbctl(&["clear", "Address_Set", &uuid, "addresses"])
                .unwrap();
            cleared += 1;
        }
    }
    database.expect(W, V4, &["10.0.0.1"]).await;
    // Five at once, then at 50, 150, 350, 750 and 1,550 ms, then one a second; and as many of the other client.
    let changes = history.updates().len();
    let seconds = start.elapsed().as_secs() as usize;
    assert!(cleared >= 8, "{cleared}");
    assert!(
        changes <= 2 * (10 + seconds) + 1,
        "{changes} changes, of which {cleared} are theirs"
    );
    writer.stop().await;
}

//! A database whose address sets ovn-kubernetes manages.

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER,
    Family::{self, V4, V6},
    address_set_id, address_set_name,
};
use runtime::store::Event;

use crate::harness::{Database, RunningWriter, deleted, object, policy};

const W: &str = "www.example.com.";

/// The name of the set of [`W`].
pub(crate) fn set(family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, W, family))
}

/// ovn-kubernetes' measured behaviour. At any difference of a status it replaces the whole column, in one update per
/// family. If the row is equal it sends nothing.
pub(crate) fn ovn_kubernetes_writes(database: &Database, name: &str, addresses: &[&str]) -> bool {
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

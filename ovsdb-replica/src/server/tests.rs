//! Servers that can be used, and others.

use foldhash::HashSet;
use serde_json::{json, value::to_raw_value};

use super::{super::replica::TableUpdates, *};

const ROW: &str = "b487b549-9d01-481e-aaf8-d194f26edc55";
const CLUSTER: &str = "11111111-9d01-481e-aaf8-d194f26edc55";
const OTHER: &str = "22222222-9d01-481e-aaf8-d194f26edc55";

fn update(server: &mut Replica<ServedDatabase>, kind: &str, row: serde_json::Value) {
    let updates = to_raw_value(&json!({ROW: {kind: row}})).unwrap();
    let whole = to_raw_value(&json!({ "Database": updates })).unwrap();
    let TableUpdates(tables) = TableUpdates::read_differences(&whole).unwrap();
    for (_, rows) in tables {
        server.apply(rows, &mut HashSet::default()).unwrap();
    }
}

fn server(row: serde_json::Value) -> Replica<ServedDatabase> {
    let mut server = Replica::default();
    update(&mut server, "initial", row);
    server
}

fn clustered(cluster: &str, index: i64, leader: bool) -> Replica<ServedDatabase> {
    server(json!({
        "name": "Library", "model": "clustered", "connected": true, "leader": leader,
        "cid": ["uuid", cluster], "index": index,
    }))
}

fn said(progress: &mut Progress, server: &Replica<ServedDatabase>, leader_only: bool) -> String {
    match progress.check(server, "Library", leader_only, Instant::now()) {
        Ok(()) => "it will do".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn check_server_without_its_cluster_is_refused() {
    let said = |row| said(&mut Progress::default(), &server(row), true);
    let standalone = json!({"name": "Library", "model": "standalone", "connected": true});
    assert_eq!(said(standalone), "it will do");
    // Columns with their default are left out.
    assert_eq!(
        said(json!({"name": "Library"})),
        "the server is not connected to its cluster"
    );
    assert_eq!(
        said(json!({"name": "Other", "connected": true})),
        "the server does not serve the database"
    );
}

#[test]
fn check_follower_is_refused_if_leader_is_needed() {
    let follower = clustered(CLUSTER, 7, false);
    let said = |leader_only| said(&mut Progress::default(), &follower, leader_only);
    assert_eq!(said(true), "the server does not lead its cluster");
    assert_eq!(said(false), "it will do");
}

#[tokio::test(start_paused = true)]
async fn check_server_behind_is_refused_until_all_were_for_long() {
    let mut progress = Progress::default();
    let ahead = clustered(CLUSTER, 9, true);
    let behind = clustered(CLUSTER, 8, true);
    let stale = "the server is behind: it is at 8 of its cluster's log, and 9 was seen";
    assert_eq!(said(&mut progress, &ahead, true), "it will do");
    assert_eq!(said(&mut progress, &behind, true), stale);
    tokio::time::advance(STALE_DEADLINE / 2).await;
    assert_eq!(said(&mut progress, &behind, true), stale);
    // A server that is not behind resets the deadline.
    assert_eq!(said(&mut progress, &ahead, true), "it will do");
    tokio::time::advance(STALE_DEADLINE).await;
    assert_eq!(said(&mut progress, &behind, true), stale);
    tokio::time::advance(STALE_DEADLINE).await;
    assert_eq!(said(&mut progress, &behind, true), "it will do");
    assert_eq!(said(&mut progress, &behind, true), "it will do");
}

#[test]
fn check_other_cluster_starts_anew() {
    let mut progress = Progress::default();
    for (cluster, index) in [(CLUSTER, 9), (OTHER, 2), (OTHER, 3)] {
        let server = clustered(cluster, index, true);
        assert_eq!(said(&mut progress, &server, true), "it will do");
    }
    assert_eq!(progress.index, 3);
}

//! Clusters: servers that lead, follow, leave, die and go back in time.

use std::fs;

use ovsdb_replica::{Error, Outcome};

use crate::{
    cluster::Cluster,
    follow::{Follower, add, addresses, client, down, insert, make_row, transact, until, up},
};

fn holds(expected: &[&str]) -> impl Fn(&Follower) -> bool {
    move |client| addresses(client).is_some_and(|found| found == expected)
}

#[tokio::test]
async fn a_server_without_a_majority_is_left_until_there_is_one() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let mut follower = client(&cluster.servers[leader].remote());
    up(&mut follower).await;
    make_row(&mut follower, "a1").await;
    for other in 1..3 {
        cluster.servers[(leader + other) % 3].process.kill();
    }
    // It may still believe that it leads, but cannot commit.
    let outcome = transact(&mut follower, vec![insert("a2")]).await;
    assert!(
        matches!(outcome, Outcome::Unknown(Error::NotServed { served: true })),
        "{outcome:?}"
    );
    cluster.servers[(leader + 1) % 3].restart().await;
    up(&mut follower).await;
    assert!(!follower.replica().unwrap().is_empty());
}

#[tokio::test]
async fn a_cluster_restored_from_files_of_before_is_believed_after_a_while() {
    let mut cluster = Cluster::start(3).await;
    let mut follower = client(&cluster.remotes());
    up(&mut follower).await;
    let row = make_row(&mut follower, "a1").await;
    transact(&mut follower, vec![add(row, "10.0.0.1")]).await;
    for server in &mut cluster.servers {
        server.process.kill();
        fs::copy(server.path("db"), server.path("backup")).unwrap();
    }
    restart_all(&mut cluster).await;
    until(&mut follower, "as before", holds(&["10.0.0.1"])).await;
    for n in 2..20 {
        cluster.add(&format!("10.0.0.{n}"));
    }
    until(&mut follower, "all of them", |client| {
        addresses(client).is_some_and(|found| found.len() == 19)
    })
    .await;
    for server in &mut cluster.servers {
        server.process.kill();
        fs::copy(server.path("backup"), server.path("db")).unwrap();
    }
    restart_all(&mut cluster).await;
    let mut was_stale = false;
    while !was_stale {
        was_stale = matches!(down(&mut follower).await, Error::Stale { .. });
    }
    until(&mut follower, "the backup", holds(&["10.0.0.1"])).await;
    let outcome = transact(&mut follower, vec![add(row, "10.0.0.77")]).await;
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

/// The servers need one another to answer.
async fn restart_all(cluster: &mut Cluster) {
    for server in &mut cluster.servers {
        server.restart().await;
    }
    cluster.is_whole().await;
}

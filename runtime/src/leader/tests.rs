//! The election in a folder, and its messages.

use std::{fs, time::Duration};

use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::store::dir::DirStore;

const DEADLINE: Duration = Duration::from_secs(20);

struct Replica {
    leader: Leader,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    fn start(dir: &TempDir) -> Self {
        let store = OpenStore::Dir(DirStore::open(dir.path()).unwrap());
        let leadership = Leadership::of(&store, "x", "collector");
        let (leader, token) = (leadership.leader(), CancellationToken::new());
        Self {
            leader,
            task: tokio::spawn(leadership.run(token.clone())),
            token,
        }
    }

    async fn changes(&mut self) -> bool {
        let changed = timeout(DEADLINE, self.leader.changed()).await;
        changed.expect("a change in time");
        self.leader.is_leading()
    }

    async fn stays(&mut self) -> bool {
        let changed = timeout(Duration::from_secs(1), self.leader.changed()).await;
        changed.expect_err("no change");
        self.leader.is_leading()
    }
}

#[tokio::test]
async fn one_of_those_that_share_a_folder_leads_for_its_life() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Replica::start(&dir);
    assert!(first.changes().await);
    let mut second = Replica::start(&dir);
    assert!(!second.stays().await);
    first.token.cancel();
    first.task.await.unwrap().unwrap();
    assert!(!first.leader.is_leading());
    assert!(second.changes().await);
    // Without a release, as at the end of its process.
    let mut third = Replica::start(&dir);
    assert!(!third.stays().await);
    second.task.abort();
    assert!(third.changes().await);
    assert!(!second.leader.is_leading());
}

#[tokio::test]
async fn holder_of_a_removed_lock_file_does_not_lead() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Replica::start(&dir);
    assert!(first.changes().await);
    let mut second = Replica::start(&dir);
    assert!(!second.stays().await);
    // Others would lock a new file of this name.
    fs::remove_file(dir.path().join(".collector-leader")).unwrap();
    assert!(!first.changes().await);
    tokio::select! {
        leads = first.changes() => assert!(leads),
        leads = second.changes() => assert!(leads),
    }
    assert!(!(first.leader.is_leading() && second.leader.is_leading()));
}

#[tokio::test]
async fn a_folder_that_is_away_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().with_extension("away");
    let mut replica = Replica::start(&dir);
    assert!(replica.changes().await);
    fs::rename(dir.path(), &elsewhere).unwrap();
    assert!(!replica.changes().await);
    fs::rename(&elsewhere, dir.path()).unwrap();
    assert!(replica.changes().await);
}

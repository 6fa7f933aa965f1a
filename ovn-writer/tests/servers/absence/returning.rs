//! Stores and databases that lose their content and get it back.

use std::{fs, process::Command, time::Duration};

use tests::{
    northbound::Northbound,
    soak::{is_long, or_long},
};
use tokio::time::interval;

use super::fixture::{Fixture, address, name};
use crate::{
    harness::{policy, quick},
    server::run,
};

/// No address left a set in use.
const NONE: [&str; 0] = [];

mod soak {
    use super::*;

    /// Two objects a second with a delay of 5 s, or ten times as fast.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_whose_objects_come_back_one_by_one_cuts_no_set() {
        let policy = if is_long() { policy() } else { quick(policy()) };
        let (mut fixture, _) = Fixture::start_with(40, policy).await;
        fixture.stop_writer().await;
        fs::remove_dir_all(fixture.store.objects_folder()).unwrap();
        fs::create_dir(fixture.store.objects_folder()).unwrap();
        fixture.start_writer();
        let mut pace = interval(or_long(
            Duration::from_millis(50),
            Duration::from_millis(500),
        ));
        for n in 0..40 {
            pace.tick().await;
            fixture.store.write_status(&name(n), &[&address(n)]);
        }
        fixture.outlast(1).await;
        assert_eq!(fixture.closings(), NONE);
        fixture.writer.ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_comes_back_with_one_of_forty_objects_empties_nothing() {
    for is_noticed in [false, true] {
        let (mut fixture, _) = Fixture::start(40).await;
        let aside = fixture.put_folder_aside();
        if is_noticed {
            fixture.writer.is_out_of_sync().await;
        }
        fixture.store.write_status(&name(0), &[&address(0)]);
        fixture.outlast(3).await;
        assert_eq!(fixture.closings(), NONE);
        fixture.writer.suspects().await;
        fixture.bring_folder_back(aside);
        fixture.writer.ready().await;
        fixture.outlast(1).await;
        assert_eq!(fixture.closings(), NONE);
        fixture.expect_all(40).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_list_with_none_of_the_names_in_use_empties_nothing() {
    let (mut fixture, _) = Fixture::start(2).await;
    fixture.stop_writer().await;
    let aside = fixture.put_folder_aside();
    for is_strange in [false, true] {
        fs::create_dir_all(fixture.store.objects_folder()).unwrap();
        if is_strange {
            fixture
                .store
                .write_status("stranger.example.", &["10.9.9.9"]);
        }
        fixture.start_writer();
        fixture.outlast(3).await;
        fixture.writer.suspects().await;
        fixture.stop_writer().await;
    }
    fixture.start_writer();
    fixture.bring_folder_back(aside);
    fixture.writer.ready().await;
    assert_eq!(fixture.closings(), NONE);
    fixture.expect_all(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_away_for_long_empties_nothing() {
    let (mut fixture, _) = Fixture::start(2).await;
    let aside = fixture.put_folder_aside();
    fixture.writer.is_out_of_sync().await;
    for _ in 0..3 {
        fixture.clock.tick(&fixture.database).await;
    }
    // It continues to repair changes of other clients.
    let uuid = fixture.database.row(&name(0), proto::api::Family::V4).uuid;
    let add = ["add", "Address_Set", &uuid, "addresses", "10.6.6.6"];
    fixture.database.northbound.nbctl(&add).unwrap();
    fixture.expect_all(2).await;
    fixture.bring_folder_back(aside);
    fixture.writer.ready().await;
    fixture.outlast(1).await;
    assert_eq!(fixture.closings(), ["n0.example. 10.6.6.6"]);
}

/// How a database is restored.
#[derive(Clone, Copy, Debug)]
enum Restore {
    /// By one transaction.
    AtWork,
    /// As a file, while no server runs.
    Replaced,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_restored_beside_a_running_writer_keeps_its_sets() {
    for restore in [Restore::AtWork, Restore::Replaced] {
        let (mut fixture, _) = Fixture::start(10).await;
        fixture.stop_writer().await;
        let remote = fixture.database.northbound.remote();
        let backup = run(Command::new("ovsdb-client").args(["backup", &remote])).unwrap();
        let file = fixture.database.workdir.join("backup.db");
        fs::write(&file, backup).unwrap();

        let folder = fixture.database.workdir.path().to_owned();
        fixture.database.northbound.process().kill();
        fs::remove_file(folder.join("nb.db")).unwrap();
        fixture.database.northbound = Northbound::start(&folder).await;
        for n in 0..10 {
            fixture.store.remove_object(&name(n));
        }
        fixture.start_writer();
        fixture.fence().await;
        match restore {
            Restore::AtWork => {
                let shell = format!("ovsdb-client restore {remote} <{}", file.display());
                run(Command::new("sh").args(["-c", &shell])).unwrap();
            }
            Restore::Replaced => {
                fixture.database.northbound.process().kill();
                fs::copy(file, folder.join("nb.db")).unwrap();
                fixture.database.northbound.restart().await;
            }
        }
        fixture.outlast(3).await;
        assert_eq!(fixture.closings(), NONE, "{restore:?}");
        fixture.expect_all(10).await;
        for n in 0..10 {
            fixture.store.write_status(&name(n), &[&address(n)]);
        }
        fixture.writer.ready().await;
        assert_eq!(fixture.closings(), NONE, "{restore:?}");
    }
}

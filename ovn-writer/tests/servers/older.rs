//! Servers that are too old: a real server some of whose methods and databases are hidden.

use crate::{
    follow::{client, down},
    harness::Database,
    proxy::Proxy,
};

/// Before Open vSwitch 2.9 there was neither, and before 2.10 perhaps the method alone.
const OLDER: [&[&str]; 2] = [&["set_db_change_aware", "_Server"], &["_Server"]];

#[tokio::test]
async fn a_server_before_open_vswitch_2_17_is_refused_with_its_version() {
    for unknown in OLDER {
        let database = Database::start().await;
        let proxy = Proxy::start(database.workdir.join("nb.sock"), unknown);
        let error = down(&mut client(&proxy.remote())).await;
        assert_eq!(
            error.to_string(),
            "the server is older than Open vSwitch 2.17: it has no _Server database"
        );
    }
}

//! Commands by a control socket.

use std::time::Duration;

use ovsdb_replica::{ControlSocket, Error};

use crate::server::standalone;

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_command_returns_its_output_or_the_words_of_the_program() {
    let (folder, _server) = standalone(&[]);
    let path = folder.path().join("nb.ctl");
    let mut socket = ControlSocket::connect(&path).await.unwrap();
    let version = socket.call("version", &[], DEADLINE).await.unwrap();
    assert!(version.starts_with("ovsdb-server"), "{version}");
    let listed = socket.call("ovsdb-server/list-dbs", &[], DEADLINE).await;
    assert!(listed.unwrap().contains("OVN_Northbound"));
    match socket.call("no/such", &["x"], DEADLINE).await {
        Err(Error::Refused { reason, .. }) => assert!(reason.error.contains("no/such"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let nowhere = ControlSocket::connect(&folder.path().join("none")).await;
    assert!(matches!(nowhere, Err(Error::Connect(_))));
}

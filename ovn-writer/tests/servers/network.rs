//! Networks that lose every packet, and servers that read everything and never answer.

use std::time::Duration;

use ovn_writer::address_set::NORTHBOUND;
use ovsdb_replica::{ClientOptions, Error, Outcome};
use tests::{or_skip, workdir::Workdir};
use tokio::net::TcpListener;

use crate::{
    follow::{add, addresses, client_with, down, make_row, transact, until, up},
    harness::Database,
    namespace::Apart,
    proxy::{Proxy, swallow},
    server::create,
};

fn impatient() -> ClientOptions {
    let mut options = ClientOptions::new(NORTHBOUND);
    options.transact_deadline = Duration::from_secs(1);
    options.session.request_deadline = Duration::from_secs(1);
    options.session.monitor_deadline = Duration::from_secs(1);
    options.session.transport.connect_timeout = Duration::from_secs(1);
    options.session.transport.inactivity_probe = Some(Duration::from_secs(1));
    options
}

#[tokio::test]
async fn a_total_packet_loss_is_noticed_and_no_update_is_lost_or_doubled() {
    let workdir = Workdir::new();
    create(workdir.path(), "nb", |_| {});
    let server = or_skip!(Apart::start(workdir.path(), "nb").await);
    server.reachable().await;
    let mut client = client_with(&server.remote(), impatient());
    up(&mut client).await;
    let row = make_row(&mut client, "a1").await;
    let mut expected = Vec::new();
    for round in 0..3 {
        let address = format!("10.0.0.{round}");
        server.plug(false);
        let outcome = transact(&mut client, vec![add(row, &address)]).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        let error = down(&mut client).await;
        let inactive = "nothing came for 2s";
        assert!(error.to_string().contains(inactive), "{error}");
        let error = down(&mut client).await;
        assert!(matches!(error, Error::Connect(_)), "{error}");
        server.plug(true);
        up(&mut client).await;
        // Its arrival is unknown: the missing addresses are computed again.
        if addresses(&client).unwrap() == expected {
            let outcome = transact(&mut client, vec![add(row, &address)]).await;
            assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        }
        expected.push(address);
        assert_eq!(addresses(&client).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_server_that_goes_silent_on_a_local_socket_is_left_by_the_deadline() {
    let database = Database::start().await;
    let proxy = Proxy::start(database.workdir.join("nb.sock"));
    let mut client = client_with(&proxy.remote(), impatient());
    up(&mut client).await;
    let row = make_row(&mut client, "a1").await;
    proxy.forward(false);
    let outcome = transact(&mut client, vec![add(row, "10.0.0.1")]).await;
    assert!(
        matches!(outcome, Outcome::Unknown(Error::Deadline { .. })),
        "{outcome:?}"
    );
    client.restart();
    let error = down(&mut client).await;
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    proxy.forward(true);
    // Delayed packets arrive late, and the client sees their effect.
    until(&mut client, "it arrived after all", |client| {
        addresses(client).is_some_and(|found| found == ["10.0.0.1"])
    })
    .await;
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_passed_over() {
    let database = Database::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = format!("tcp:{}", silent.local_addr().unwrap());
    let swallowing = tokio::spawn(swallow(silent));
    let error = down(&mut client_with(&remote, impatient())).await;
    assert!(
        matches!(
            error,
            Error::Deadline {
                method: "set_db_change_aware",
                ..
            }
        ),
        "{error}"
    );
    for _ in 0..5 {
        let remotes = format!("{remote},{}", database.northbound.remote());
        let (at, _) = up(&mut client_with(&remotes, impatient())).await;
        assert_eq!(at, database.northbound.remote());
    }
    swallowing.abort();
}

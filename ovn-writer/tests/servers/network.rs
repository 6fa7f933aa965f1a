//! Networks that lose every packet, and servers that read everything and never answer.

use std::time::Duration;

use ovn_writer::address_set::NORTHBOUND;
use ovsdb_replica::{ClientOptions, Error, Outcome};
use tests::{or_skip, workdir::Workdir};
use tokio::{io::copy, net::TcpListener};

use crate::{
    follow::{add, addresses, client_with, down, make_row, transact, up},
    harness::Database,
    namespace::Apart,
    server::create,
};

fn impatient() -> ClientOptions {
    let mut options = ClientOptions::new(NORTHBOUND);
    options.transact_deadline = Duration::from_secs(1);
    options.session.request_deadline = Duration::from_secs(1);
    options.session.monitor_deadline = Duration::from_secs(1);
    options.session.transport.connect_timeout = Duration::from_secs(1);
    options.session.transport.inactivity_probe = Duration::from_secs(1);
    options
}

#[tokio::test]
async fn packet_loss_is_noticed_and_no_update_is_lost_or_doubled() {
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
async fn server_that_never_answers_is_passed_over() {
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

/// Accepts connections, reads from them, and never answers.
async fn swallow(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move { copy(&mut stream, &mut tokio::io::sink()).await });
    }
}

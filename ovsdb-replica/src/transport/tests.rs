//! The transport over in-memory pipes, with time paused, and over local sockets.

use std::{io::Write, os::unix::net};

use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    net::UnixStream,
    time::sleep,
};

use super::*;

fn pipe(probe: Option<Probe>) -> (Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(256);
    (
        Connection::new(ours, probe, &TransportOptions::default()),
        theirs,
    )
}

/// A connection over a local socket, and the server's end of it.
fn local() -> (Connection, net::UnixStream) {
    let (ours, theirs) = net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = local::Local::new(UnixStream::from_std(ours).unwrap()).unwrap();
    (
        Connection::new(ours, None, &TransportOptions::default()),
        theirs,
    )
}

/// The result of a reply.
async fn result(connection: &mut Connection) -> String {
    match connection.receive(None).await.unwrap() {
        Some(Received::Reply(reply)) => reply.result.unwrap().lossy().into_owned(),
        other => panic!("{other:?}"),
    }
}

async fn sent(server: &mut DuplexStream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[tokio::test]
async fn requests_and_replies_pass() {
    let (mut connection, mut server) = pipe(None);
    let request = r#"{"id":0,"method":"list_dbs","params":[]}"#;
    connection.send(request.into());
    sent(&mut server, request).await;
    server
        .write_all(br#"{"id":0,"result":["a"],"error":null}{"id""#)
        .await
        .unwrap();
    assert_eq!(result(&mut connection).await, r#"["a"]"#);
    drop(server);
    let error = connection.receive(None).await.unwrap_err();
    assert_eq!(error.to_string(), "the stream ended 5 bytes into a message");
}

#[tokio::test]
async fn an_echo_is_answered_while_requests_wait_for_the_socket() {
    let (mut connection, mut server) = pipe(None);
    let long = "x".repeat(1000);
    let request = Bytes::from(format!(r#"{{"id":0,"method":"m","params":["{long}"]}}"#));
    connection.send(request.clone());
    connection.send(request);
    // The first is being written, and does not fit the pipe.
    sent(&mut server, "{").await;
    let asked = br#"{"method":"echo","params":[],"id":"echo"}{"id":1,"result":0}"#;
    server.write_all(asked).await.unwrap();
    result(&mut connection).await;
    let rest = format!(r#""id":0,"method":"m","params":["{long}"]}}"#);
    let reading = async {
        sent(&mut server, &rest).await;
        sent(&mut server, r#"{"id":"echo","result":[],"error":null}{"#).await;
        sent(&mut server, &rest).await;
    };
    tokio::select! {
        () = reading => {}
        other = connection.receive(None) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_echoes_and_reads_none_is_left() {
    let (mut connection, mut server) = pipe(None);
    let asking = tokio::spawn(async move {
        while server
            .write_all(br#"{"method":"echo","params":[],"id":"echo"}"#)
            .await
            .is_ok()
        {}
        server
    });
    let error = connection.receive(None).await.unwrap_err();
    assert!(matches!(error, TransportError::EchoFlood), "{error}");
    drop(connection);
    asking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn our_own_questions_that_the_server_does_not_take_do_not_keep_us_from_reading() {
    let (mut connection, mut server) = pipe(None);
    let long = "x".repeat(1000);
    connection.send(format!(r#"{{"id":0,"method":"m","params":["{long}"]}}"#).into());
    connection
        .hold(tokio::time::sleep(Duration::from_secs(20)))
        .await;
    server.write_all(br#"{"id":0,"result":7}"#).await.unwrap();
    assert_eq!(result(&mut connection).await, "7");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_slow_to_take_what_the_kernel_holds_tells_the_server_of_it() {
    let (mut connection, server) = pipe(None);
    let (mut reading, mut writing) = tokio::io::split(server);
    let update = format!(r#"{{"method":"update","params":["{}"]}}"#, "x".repeat(180));
    let updates =
        tokio::spawn(async move { while writing.write_all(update.as_bytes()).await.is_ok() {} });
    let asked = String::from_utf8(message::PROBE.to_vec()).unwrap();
    let told = tokio::spawn(async move {
        let mut bytes = vec![0; asked.len()];
        reading.read_exact(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), asked);
    });
    for _ in 0..8 {
        let received = connection.receive(None).await.unwrap();
        assert!(matches!(received, Some(Received::Notification(_))));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(told.is_finished(), "nothing was told for 8 s");
    told.await.unwrap();
    drop(connection);
    updates.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_and_then_left() {
    let probe = Duration::from_secs(5);
    let (mut connection, mut server) = pipe(Some(Probe::of_network(probe)));
    let started = Instant::now();
    let asked = String::from_utf8(message::PROBE.to_vec()).unwrap();
    let server = tokio::spawn(async move {
        // The first question is answered, the second is not.
        sent(&mut server, &asked).await;
        server
            .write_all(br#"{"id":"probe","result":[],"error":null}"#)
            .await
            .unwrap();
        sent(&mut server, &asked).await;
        server
    });
    let error = connection.receive(None).await.unwrap_err();
    assert!(matches!(error, TransportError::Inactive(_)), "{error}");
    assert_eq!(started.elapsed(), probe * 3);
    drop(server.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_local_server_that_does_not_answer_is_kept_and_told_of_until_it_does() {
    let probe = Duration::from_secs(30);
    let (mut connection, mut server) = pipe(Some(Probe::of_local_socket(probe)));
    let started = Instant::now();
    let asked = String::from_utf8(message::PROBE.to_vec()).unwrap();
    let answer = br#"{"id":"probe","result":[],"error":null}"#;
    let server = tokio::spawn(async move {
        // It answers late, but soon enough; then not for an hour; then it is heard without being asked.
        sent(&mut server, &asked).await;
        sleep(Duration::from_secs(9)).await;
        server.write_all(answer).await.unwrap();
        sent(&mut server, &asked).await;
        sleep(Duration::from_secs(3600)).await;
        server.write_all(answer).await.unwrap();
        sleep(Duration::from_secs(29)).await;
        server.write_all(br#"{"id":1,"result":7}"#).await.unwrap();
        sent(&mut server, &asked).await;
        server
    });
    let told = connection.receive(None).await.unwrap();
    assert!(
        matches!(told, Some(Received::Responsive(false))),
        "{told:?}"
    );
    assert_eq!(started.elapsed().as_secs(), 30 + 9 + 30 + 10);
    assert!(!connection.is_responsive());
    let told = connection.receive(None).await.unwrap();
    assert!(matches!(told, Some(Received::Responsive(true))), "{told:?}");
    assert_eq!(started.elapsed().as_secs(), 30 + 9 + 30 + 3600);
    assert_eq!(result(&mut connection).await, "7");
    let until = Instant::now() + Duration::from_secs(39);
    assert!(connection.receive(Some(until)).await.unwrap().is_none());
    assert!(connection.is_responsive() && server.is_finished());
    drop(server.await.unwrap());
}

#[tokio::test]
async fn what_is_not_the_protocol_ends_the_connection() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "byte 0x48"),
        (&br#"{"id":}"#[..], "not JSON-RPC"),
        (&br#"{"id":1,"method":"steal","params":[]}"#[..], "steal"),
    ] {
        let (mut connection, mut server) = pipe(None);
        server.write_all(bytes).await.unwrap();
        let error = connection.receive(None).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn what_a_server_said_before_it_went_is_read_though_nothing_can_be_written() {
    let (mut connection, mut server) = local();
    server.write_all(br#"{"id":0,"result":1}"#).unwrap();
    assert_eq!(result(&mut connection).await, "1");
    // The socket is not looked at between this and what follows.
    server.write_all(br#"{"id":1,"result":2}"#).unwrap();
    drop(server);
    connection.send(r#"{"id":2,"method":"m","params":[]}"#.into());
    assert_eq!(result(&mut connection).await, "2");
    let error = connection.receive(None).await.unwrap_err();
    assert!(matches!(error, TransportError::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_any_more_and_says_nothing_is_left() {
    let (mut connection, server) = local();
    server.shutdown(std::net::Shutdown::Read).unwrap();
    connection.send(r#"{"id":0,"method":"m","params":[]}"#.into());
    let (start, error) = (Instant::now(), connection.receive(None).await.unwrap_err());
    assert!(
        matches!(&error, TransportError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe),
        "{error}"
    );
    assert_eq!(start.elapsed(), LAST_WORDS);
    drop(server);
}

#[tokio::test]
async fn a_request_that_does_not_fit_a_local_socket_goes_out_while_what_comes_is_read() {
    const REPLIES: u64 = 100;
    let (mut connection, server) = local();
    server.set_nonblocking(true).unwrap();
    let mut server = UnixStream::from_std(server).unwrap();
    let long = "x".repeat(4 << 20);
    let request = format!(r#"{{"id":0,"method":"m","params":["{long}"]}}"#);
    let all = request.repeat(2);
    connection.send(request.clone().into());
    connection.send(request.into());
    let serving = tokio::spawn(async move {
        let mut taken = vec![0; all.len()];
        let part = all.len().div_ceil(usize::try_from(REPLIES).unwrap());
        for (id, part) in (0..REPLIES).zip(taken.chunks_mut(part)) {
            let reply = format!(r#"{{"id":{id},"result":{id}}}"#);
            server.write_all(reply.as_bytes()).await.unwrap();
            server.read_exact(part).await.unwrap();
        }
        assert!(taken == all.as_bytes());
    });
    for id in 0..REPLIES {
        assert_eq!(result(&mut connection).await, id.to_string());
    }
    // The last part is taken after the last reply.
    let ended = connection.receive(None).await.unwrap_err();
    assert!(matches!(ended, TransportError::Closed), "{ended}");
    serving.await.unwrap();
}

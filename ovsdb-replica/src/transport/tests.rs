//! The transport over in-memory pipes, with time paused, and over local sockets.

use std::{io, os::unix::net};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::UnixStream,
    time::{Instant, sleep},
};

use super::{liveness::Probe, wire::READ_AFTER_WRITE_ERROR, *};

fn pipe(probe: Option<Probe>) -> (Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(256);
    let connection = Connection::new(ours, probe, &TransportOptions::default());
    (connection.unwrap(), theirs)
}

/// A connection over a local socket, and the server's end of it.
fn local() -> (Connection, UnixStream) {
    let (ours, theirs) = net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let ours = local::Local::new(UnixStream::from_std(ours).unwrap()).unwrap();
    let connection = Connection::new(ours, None, &TransportOptions::default());
    (connection.unwrap(), UnixStream::from_std(theirs).unwrap())
}

/// Sends a request, and returns the bytes that the server gets.
fn send(connection: &mut Connection, id: u64, params: &Value) -> String {
    connection.send(id, "m", params).unwrap();
    format!(r#"{{"id":{id},"method":"m","params":{params}}}"#)
}

async fn next(connection: &mut Connection) -> String {
    match connection.receive(None).await {
        Ok(Some(Received::Reply(Reply { id, result }))) => match result {
            Ok(result) => format!("{id}: {}", result.lossy()),
            Err(error) => format!("{id} refused: {}", error.lossy()),
        },
        Ok(Some(Received::Notification(notification))) => notification.params.lossy().into_owned(),
        Ok(Some(Received::Responsive(responsive))) => format!("responsive: {responsive}"),
        Ok(None) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

async fn sent(server: &mut (impl AsyncReadExt + Unpin), expected: &str) {
    let mut bytes = vec![0; expected.len()];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

fn probe_text() -> String {
    String::from_utf8(message::PROBE.to_vec()).unwrap()
}

#[tokio::test]
async fn requests_and_replies_pass() {
    let (mut connection, mut server) = pipe(None);
    let request = send(&mut connection, 1, &json!([]));
    sent(&mut server, &request).await;
    let reply = br#"{"id":1,"result":["a"],"error":null}{"id""#;
    server.write_all(reply).await.unwrap();
    assert_eq!(next(&mut connection).await, r#"1: ["a"]"#);
    drop(server);
    assert_eq!(
        next(&mut connection).await,
        "the stream ended 5 bytes into a message"
    );
}

#[tokio::test]
async fn replies_and_notifications_come_in_the_order_of_the_server() {
    let (mut connection, mut server) = local();
    for id in 1..=4 {
        send(&mut connection, id, &json!([]));
    }
    let update = |n: u64| format!(r#"{{"method":"update3","params":[{n}]}}"#);
    let reply = |id: u64| format!(r#"{{"id":{id},"result":0,"error":null}}"#);
    // The replies are not in the order of the requests.
    let all = [
        update(1),
        reply(2),
        update(2),
        reply(1),
        reply(4),
        update(3),
        reply(3),
    ];
    server.write_all(all.concat().as_bytes()).await.unwrap();
    for expected in ["[1]", "2: 0", "[2]", "1: 0", "4: 0", "[3]", "3: 0"] {
        assert_eq!(next(&mut connection).await, expected);
    }
}

#[tokio::test]
async fn a_refusal_comes_with_all_of_its_words() {
    let (mut connection, mut server) = pipe(None);
    send(&mut connection, 1, &json!([]));
    send(&mut connection, 2, &json!([]));
    let replies =
        br#"{"id":1,"error":"canceled"}{"id":2,"result":null,"error":{"error":"x","details":"y"}}"#;
    server.write_all(replies).await.unwrap();
    assert_eq!(next(&mut connection).await, r#"1 refused: "canceled""#);
    assert_eq!(
        next(&mut connection).await,
        r#"2 refused: {"error":"x","details":"y"}"#
    );
}

#[tokio::test]
async fn a_reply_longer_than_all_buffers_arrives_and_what_follows_too() {
    let (mut connection, mut server) = local();
    send(&mut connection, 1, &json!([]));
    let long = "x".repeat(3 * LONG_MESSAGE);
    let replies = format!(r#"{{"id":1,"result":"{long}"}}{{"method":"m","params":[7]}}"#);
    let writing = async { server.write_all(replies.as_bytes()).await.unwrap() };
    let (first, ()) = tokio::join!(next(&mut connection), writing);
    assert!(first == format!("1: \"{long}\""));
    assert_eq!(next(&mut connection).await, "[7]");
}

#[tokio::test]
async fn an_unknown_or_a_second_reply_ends_the_session_and_is_named() {
    for (replies, id) in [
        (r#"{"id":7,"result":0}"#, 7),
        (r#"{"id":1,"result":0}{"id":1,"result":0}"#, 1),
    ] {
        let (mut connection, mut server) = pipe(None);
        send(&mut connection, 1, &json!([]));
        server.write_all(replies.as_bytes()).await.unwrap();
        if id == 1 {
            assert_eq!(next(&mut connection).await, "1: 0");
        }
        let expected = format!("a reply to no request: {id}");
        assert_eq!(next(&mut connection).await, expected);
    }
}

#[tokio::test]
async fn nothing_goes_out_once_the_connection_is_given_up() {
    let (mut connection, mut server) = pipe(None);
    let first = send(&mut connection, 1, &json!(["x".repeat(1000)]));
    sent(&mut server, &first[..1]).await;
    send(&mut connection, 2, &json!([]));
    drop(connection);
    let mut rest = String::new();
    server.read_to_string(&mut rest).await.unwrap();
    // The content of the pipe.
    assert!(rest.len() <= 256 && first[1..].starts_with(&rest));
}

#[tokio::test]
async fn an_echo_is_answered_while_requests_wait_for_the_socket() {
    let (mut connection, mut server) = pipe(None);
    let long = json!(["x".repeat(1000)]);
    let first = send(&mut connection, 1, &long);
    let second = send(&mut connection, 2, &long);
    // The first request is being written, and does not fit the pipe.
    sent(&mut server, &first[..1]).await;
    let asked = br#"{"method":"echo","params":[],"id":"echo"}{"id":1,"result":0}"#;
    server.write_all(asked).await.unwrap();
    assert_eq!(next(&mut connection).await, "1: 0");
    sent(&mut server, &first[1..]).await;
    sent(&mut server, r#"{"id":"echo","result":[],"error":null}"#).await;
    sent(&mut server, &second).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_echoes_and_reads_none_is_left() {
    let (mut connection, mut server) = pipe(None);
    let echo = br#"{"method":"echo","params":[],"id":"echo"}"#;
    let asking = tokio::spawn(async move {
        while server.write_all(echo).await.is_ok() {}
        server
    });
    let error = connection.receive(None).await.unwrap_err();
    assert!(matches!(error, TransportError::EchoFlood), "{error}");
    drop(connection);
    asking.await.unwrap();
}

/// Writes updates for as long as the client reads them.
async fn flood(mut server: impl AsyncWriteExt + Unpin) -> usize {
    let update = format!(r#"{{"method":"update","params":["{}"]}}"#, "x".repeat(180));
    let mut written = 0;
    while server.write_all(update.as_bytes()).await.is_ok() {
        written += 1;
    }
    written
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_nothing_is_taken() {
    let (connection, server) = pipe(None);
    let flooding = tokio::spawn(flood(server));
    sleep(Duration::from_secs(60)).await;
    drop(connection);
    // The limits of the inbox, the pipe and one read.
    let written = flooding.await.unwrap() * 200;
    assert!(written < 256 << 10, "{written} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_echo_the_server_does_not_take_does_not_stop_the_reading() {
    let (mut connection, server) = pipe(None);
    send(&mut connection, 1, &json!(["x".repeat(1000)]));
    let flooding = tokio::spawn(flood(server));
    sleep(Duration::from_secs(20)).await;
    for _ in 0..10_000 {
        assert!(next(&mut connection).await.starts_with("[\"xxx"));
    }
    drop(connection);
    flooding.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_slowly_tells_the_server_that_it_is_there() {
    let (mut connection, server) = pipe(None);
    let (mut reading, writing) = tokio::io::split(server);
    let flooding = tokio::spawn(flood(writing));
    let told = tokio::spawn(async move { sent(&mut reading, &probe_text()).await });
    for _ in 0..8 {
        next(&mut connection).await;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(told.is_finished(), "nothing was told for 8 s");
    told.await.unwrap();
    drop(connection);
    flooding.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_and_then_left() {
    let probe = Duration::from_secs(5);
    let (mut connection, mut server) = pipe(Some(Probe::of_network(probe)));
    let started = Instant::now();
    let server = tokio::spawn(async move {
        // The first probe is answered, the second is not.
        sent(&mut server, &probe_text()).await;
        let answer = br#"{"id":"probe","result":[],"error":null}"#;
        server.write_all(answer).await.unwrap();
        sent(&mut server, &probe_text()).await;
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
    let request = send(&mut connection, 1, &json!([]));
    let answer = br#"{"id":"probe","result":[],"error":null}"#;
    let server = tokio::spawn(async move {
        sent(&mut server, &request).await;
        // It answers late, but in time; then not for an hour; then it sends an unsolicited message.
        sent(&mut server, &probe_text()).await;
        sleep(Duration::from_secs(9)).await;
        server.write_all(answer).await.unwrap();
        sent(&mut server, &probe_text()).await;
        sleep(Duration::from_secs(3600)).await;
        server.write_all(answer).await.unwrap();
        sleep(Duration::from_secs(29)).await;
        server.write_all(br#"{"id":1,"result":7}"#).await.unwrap();
        sent(&mut server, &probe_text()).await;
        server
    });
    assert_eq!(next(&mut connection).await, "responsive: false");
    assert_eq!(started.elapsed().as_secs(), 30 + 9 + 30 + 10);
    assert!(!connection.is_responsive());
    assert_eq!(next(&mut connection).await, "responsive: true");
    assert_eq!(started.elapsed().as_secs(), 30 + 9 + 30 + 3600);
    assert_eq!(next(&mut connection).await, "1: 7");
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
        (&br#"{"id":1,"result":{]}"#[..], "not JSON-RPC"),
        (&br#"{"id":1,"method":"steal","params":[]}"#[..], "steal"),
    ] {
        let (mut connection, mut server) = pipe(None);
        send(&mut connection, 1, &json!([]));
        server.write_all(bytes).await.unwrap();
        let error = connection.receive(None).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn an_error_does_not_repeat_a_whole_message() {
    let (mut connection, mut server) = local();
    send(&mut connection, 1, &json!([]));
    let reply = format!(r#"{{"id":1,"unexpected":"{}"}}"#, "ü".repeat(10_000));
    server.write_all(reply.as_bytes()).await.unwrap();
    let error = connection.receive(None).await.unwrap_err().to_string();
    assert!(
        error.contains("not JSON-RPC") && error.len() < 300,
        "{error}"
    );
}

#[tokio::test]
async fn server_output_before_a_disconnect_is_read_though_writing_fails() {
    let (mut connection, mut server) = local();
    for id in 1..=2 {
        let request = send(&mut connection, id, &json!([]));
        sent(&mut server, &request).await;
    }
    server.write_all(br#"{"id":1,"result":1}"#).await.unwrap();
    assert_eq!(next(&mut connection).await, "1: 1");
    // The socket is not read between this and the next steps.
    server.write_all(br#"{"id":2,"result":2}"#).await.unwrap();
    drop(server);
    send(&mut connection, 3, &json!([]));
    assert_eq!(next(&mut connection).await, "2: 2");
    let error = connection.receive(None).await.unwrap_err();
    assert!(matches!(error, TransportError::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_nothing_any_more_and_says_nothing_is_left() {
    let (mut connection, server) = local();
    let server = server.into_std().unwrap();
    server.shutdown(std::net::Shutdown::Read).unwrap();
    send(&mut connection, 1, &json!([]));
    let (start, error) = (Instant::now(), connection.receive(None).await.unwrap_err());
    assert!(
        matches!(&error, TransportError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe),
        "{error}"
    );
    assert_eq!(start.elapsed(), READ_AFTER_WRITE_ERROR);
    drop(server);
}

#[tokio::test]
async fn a_request_larger_than_the_socket_buffer_is_sent_while_reading() {
    const PARTS: usize = 100;
    let (mut connection, mut server) = local();
    let long = json!(["x".repeat(4 << 20)]);
    let all = [1, 2].map(|id| send(&mut connection, id, &long)).concat();
    let serving = tokio::spawn(async move {
        let mut taken = vec![0; all.len()];
        let part = all.len().div_ceil(PARTS);
        for (n, part) in taken.chunks_mut(part).enumerate() {
            let update = format!(r#"{{"method":"update","params":[{n}]}}"#);
            server.write_all(update.as_bytes()).await.unwrap();
            server.read_exact(part).await.unwrap();
        }
        assert!(taken == all.as_bytes());
    });
    for n in 0..PARTS {
        assert_eq!(next(&mut connection).await, format!("[{n}]"));
    }
    // The last part is taken after the last update.
    assert_eq!(
        next(&mut connection).await,
        "the server closed the connection"
    );
    serving.await.unwrap();
}

//! A connection over in-memory pipes, with time paused where it matters.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, sleep},
};

use super::{connection::ROOM, *};

const PROBE: Duration = Duration::from_secs(5);

const ECHO: &str = r#"{"method":"echo","params":[],"id":"echo"}"#;
const ECHO_REPLY: &str = r#"{"id":"echo","result":[],"error":null}"#;

fn pipe() -> (Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(256);
    let connection = Connection::new(ours, PROBE, Limits::default());
    (connection.unwrap(), theirs)
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
async fn receive_replies_and_notifications_keeps_order_of_server() {
    let (mut connection, mut server) = pipe();
    for id in 1..=3 {
        let request = send(&mut connection, id, &json!([]));
        sent(&mut server, &request).await;
    }
    let messages = r#"{"method":"m","params":[1]}{"id":2,"result":0}{"method":"m","params":[2]}
        {"id":1,"error":"no"}{"id":3,"result":0}{"id""#;
    server.write_all(messages.as_bytes()).await.unwrap();
    drop(server);
    for expected in ["[1]", "2: 0", "[2]", r#"1 refused: "no""#, "3: 0"] {
        assert_eq!(next(&mut connection).await, expected);
    }
    assert_eq!(
        next(&mut connection).await,
        "the stream ended 5 bytes into a message"
    );
}

#[tokio::test]
async fn echo_is_answered_before_waiting_requests() {
    let (mut connection, mut server) = pipe();
    let long = json!(["x".repeat(1000)]);
    let first = send(&mut connection, 1, &long);
    let second = send(&mut connection, 2, &long);
    // The first request is being written, and does not fit the pipe.
    sent(&mut server, &first[..1]).await;
    server.write_all(ECHO.as_bytes()).await.unwrap();
    server.write_all(br#"{"id":1,"result":0}"#).await.unwrap();
    assert_eq!(next(&mut connection).await, "1: 0");
    sent(&mut server, &first[1..]).await;
    sent(&mut server, ECHO_REPLY).await;
    sent(&mut server, &second).await;
}

#[tokio::test]
async fn echoes_that_server_does_not_read_are_not_piled_up() {
    let (mut connection, mut server) = pipe();
    for _ in 0..10_000 {
        server.write_all(ECHO.as_bytes()).await.unwrap();
    }
    send(&mut connection, 1, &json!(["long enough for one read"]));
    server.write_all(br#"{"id":1,"result":0}"#).await.unwrap();
    assert_eq!(next(&mut connection).await, "1: 0");
    let mut answered = 0;
    let mut buffer = vec![0; ECHO_REPLY.len()];
    loop {
        server.read_exact(&mut buffer).await.unwrap();
        if buffer != ECHO_REPLY.as_bytes() {
            break;
        }
        answered += 1;
    }
    assert!((1..100).contains(&answered), "{answered} answers");
}

#[tokio::test(start_paused = true)]
async fn server_is_not_read_while_session_takes_nothing() {
    let (connection, mut server) = pipe();
    let flooding = tokio::spawn(async move {
        let update = format!(r#"{{"method":"m","params":["{}"]}}"#, "x".repeat(10_000));
        let mut written = 0;
        while server.write_all(update.as_bytes()).await.is_ok() {
            written += update.len();
        }
        written
    });
    sleep(Duration::from_secs(60)).await;
    drop(connection);
    let written = flooding.await.unwrap();
    assert!((ROOM..ROOM + (1 << 20)).contains(&written), "{written}");
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_probed_and_then_left() {
    let (mut connection, mut server) = pipe();
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
    assert_eq!(started.elapsed(), PROBE * 3);
    drop(server.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn slow_message_is_no_silence() {
    let (mut connection, mut server) = pipe();
    let message = br#"{"method":"m","params":[7]}"#;
    let writing = tokio::spawn(async move {
        for byte in message {
            sleep(PROBE - Duration::from_secs(1)).await;
            server.write_all(&[*byte]).await.unwrap();
        }
        server
    });
    assert_eq!(next(&mut connection).await, "[7]");
    drop(writing.await.unwrap());
}

#[tokio::test]
async fn request_larger_than_socket_buffer_is_sent_while_reading() {
    const PARTS: usize = 100;
    let (mut connection, mut server) = pipe();
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
    assert_eq!(
        next(&mut connection).await,
        "the server closed the connection"
    );
    serving.await.unwrap();
}

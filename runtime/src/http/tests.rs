use std::net::SocketAddr;

use axum::{Extension, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;
use crate::listen::{Access, ListenAddress};

const SHORT: Duration = Duration::from_secs(1);

const LONG: Duration = Duration::from_secs(600);

struct Server {
    address: SocketAddr,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let any = "tcp://127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&any, Access::User).await.unwrap();
        let ListenAddress::Tcp(address) = *listener.address() else {
            unreachable!()
        };
        let token = CancellationToken::new();
        // Larger than the buffers of a socket.
        let large = || async { "x".repeat(64 << 20) };
        // It takes longer than SHORT, and extends its deadline.
        let slow = |Extension(exchange): Extension<Exchange>| async move {
            exchange.last(4 * SHORT);
            sleep(2 * SHORT).await;
            "at last"
        };
        let larger = move |Extension(exchange): Extension<Exchange>| async move {
            exchange.last(LONG);
            large().await
        };
        let router = Router::new()
            .route("/", get("yes"))
            .route("/large", get(large))
            .route("/larger", get(larger))
            .route("/slow", get(slow));
        let task = tokio::spawn(serve(listener, router, limits, token.clone()));
        Self {
            address,
            token,
            task,
        }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn end(self) {
        self.token.cancel();
        let ended = timeout(Duration::from_secs(10), self.task).await;
        ended.unwrap().unwrap().unwrap();
    }
}

/// All bytes until the server closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes));
    // The connection may be reset if data were left unread.
    let _ = read.await.expect("the server closes");
    String::from_utf8(bytes).unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn a_connection_has_one_request() {
    let server = Server::start(Limits::default()).await;
    let answer = rest(server.send(&GET.repeat(2)).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(answer.matches("yes").count(), 1, "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_head_that_does_not_come_closes_the_connection() {
    let limits = Limits {
        head: SHORT,
        exchange: LONG,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    for part in ["", "GET / HTTP/1.1\r\nho"] {
        let answer = rest(server.send(part).await).await;
        assert!(!answer.contains("200"), "{answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_handler_gives_its_own_exchange_more_time_and_no_other() {
    let limits = Limits {
        connections: 2,
        exchange: SHORT,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let answer = rest(server.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await).await;
    assert!(answer.ends_with("at last"), "{answer}");
    let _lasts = server.send("GET /larger HTTP/1.1\r\nhost: x\r\n\r\n").await;
    for _ in 0..3 {
        let _stalled = server.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answer = rest(server.send(GET).await).await;
        assert!(answer.ends_with("yes"), "{answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn client_beyond_the_limit_waits_for_a_free_connection() {
    let limits = Limits {
        connections: 2,
        head: LONG,
        exchange: LONG,
    };
    let server = Server::start(limits).await;
    let idle = [server.send("GET").await, server.send("GET").await];
    let mut third = server.send(GET).await;
    let mut byte = [0];
    let early = timeout(SHORT, third.read(&mut byte)).await;
    assert!(early.is_err(), "it was answered: {early:?}");
    let [first, _second] = idle;
    drop(first);
    let answer = rest(third).await;
    assert!(answer.ends_with("yes"), "{answer}");
    server.end().await;
}

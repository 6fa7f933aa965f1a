//! HTTP servers that nobody can hold up: so many connections at once, one request on each, a bounded time for it.

use std::{io, sync::Arc, time::Duration};

use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    listen::{Listener, Stream},
    sparse::Sparse,
};

/// How long an answer under way may take once the server was told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait when no connection can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much of a request's head, or of an answer, is buffered for a connection, in bytes.
const BUFFER: usize = 64 << 10;

/// What clients may take of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Connections at once. Others wait in the queue of the socket.
    pub connections: usize,
    /// How long the head of a request may take to arrive.
    pub head: Duration,
    /// How long a request and its answer may take in all.
    pub exchange: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(2),
            exchange: Duration::from_secs(30),
        }
    }
}

/// Answers until the token is cancelled; then what is under way has a second to end.
///
/// # Errors
/// A handler panicked.
pub async fn serve(
    listener: Listener,
    router: Router,
    limits: Limits,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let complaints = Sparse::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = token.cancelled() => break,
            Some(ended) = connections.join_next() => {
                ended.context("the task of an HTTP connection failed")?;
                continue;
            }
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                connections.spawn(answer(stream, router.clone(), limits, permit));
            }
            // Out of file descriptors, or the client left before it was accepted.
            Err(error) => {
                if let Some(left_out) = complaints.pass() {
                    let listen = listener.address();
                    warn!(%listen, %error, left_out, "cannot accept a connection");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    // What takes longer is aborted.
    let _too_long = timeout(DRAIN_TIMEOUT, drain).await;
    Ok(())
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &Listener,
    permits: &Arc<Semaphore>,
) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn answer(stream: Stream, router: Router, limits: Limits, _permit: OwnedSemaphorePermit) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(limits.exchange, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "an HTTP connection ended early"),
        Err(_) => debug!("an HTTP exchange took too long"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        task::JoinHandle,
    };

    use super::*;
    use crate::listen::{Access, ListenAddress};

    const SHORT: Duration = Duration::from_millis(200);

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
            // More than the buffers of a socket hold.
            let large = || async { "x".repeat(64 << 20) };
            let router = Router::new()
                .route("/", get("yes"))
                .route("/large", get(large));
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

    /// All that comes until the server closes.
    async fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        let read = timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes));
        // It may be reset, if something was left unread.
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
    async fn who_does_not_read_the_answer_is_let_go() {
        let limits = Limits {
            connections: 1,
            exchange: SHORT,
            ..Limits::default()
        };
        let server = Server::start(limits).await;
        let _idle = server.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answer = rest(server.send(GET).await).await;
        assert!(answer.ends_with("yes"), "{answer}");
        server.end().await;
    }

    #[tokio::test]
    async fn who_comes_when_all_connections_are_taken_waits_for_one() {
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

    #[tokio::test]
    async fn a_request_larger_than_the_buffer_is_refused() {
        let server = Server::start(Limits::default()).await;
        let mut stream = server.send("GET / HTTP/1.1\r\nx: ").await;
        // The server may close before all of it is sent.
        let _ = stream.write_all(&vec![b'x'; 1 << 20]).await;
        let answer = rest(stream).await;
        assert!(!answer.contains("200"), "{answer}");
        server.end().await;
    }
}

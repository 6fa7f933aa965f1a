//! HTTP servers that nobody can hold up: so many connections at once, one request on each, a bounded time for it.

use std::{io, sync::Arc, time::Duration};

use anyhow::Context;
use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    listen::{Listener, Stream},
    log_rate_limiter::LogRateLimiter,
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
    /// How long a request and its answer may take in all, unless the handler gives it [more](Exchange::last).
    pub exchange: Duration,
}

/// A request and its answer, for its handler: an [`Extension`](axum::Extension).
#[derive(Clone, Debug)]
pub struct Exchange(watch::Sender<Instant>);

impl Exchange {
    /// The exchange may take so long from now on, in all, instead of what the limit says.
    pub fn last(&self, duration: Duration) {
        self.0.send_replace(Instant::now() + duration);
    }
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
    let complaints = LogRateLimiter::default();
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
                if let Some(left_out) = complaints.allow() {
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
    loop {
        let (stream, peer) = listener.accept().await?;
        if listener.admits(&peer) {
            return Ok((stream, permit));
        }
    }
}

async fn answer(stream: Stream, router: Router, limits: Limits, _permit: OwnedSemaphorePermit) {
    let (sender, mut deadline) = watch::channel(Instant::now() + limits.exchange);
    let (exchange, service) = (Exchange(sender), TowerToHyperService::new(router));
    let service = service_fn(|mut request: hyper::Request<_>| {
        request.extensions_mut().insert(exchange.clone());
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let over = async {
        loop {
            let until = *deadline.borrow_and_update();
            tokio::select! {
                () = sleep_until(until) => break,
                // Whoever could give more time lasts as long as the connection.
                Ok(()) = deadline.changed() => {}
            }
        }
    };
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                debug!(%error, "an HTTP connection ended early");
            }
        }
        () = over => debug!("an HTTP exchange took too long"),
    }
}

#[cfg(test)]
mod tests;

//! HTTP servers that slow or hostile clients cannot block: a limit of connections, one request per connection, a time
//! limit.

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

/// How long a pending answer may take after the server was told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait when no connection can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The buffer for a request's head, or for an answer, per connection, in bytes.
const BUFFER: usize = 64 << 10;

/// The limits of a server's clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Parallel connections. Further ones wait in the queue of the socket.
    pub connections: usize,
    /// The time-out for the head of a request.
    pub head: Duration,
    /// The time-out for a request with its answer, unless the handler [extends](Exchange::last) it.
    pub exchange: Duration,
}

/// The deadline of a request, for its handler: an [`Extension`](axum::Extension).
#[derive(Clone, Debug)]
pub struct Exchange(watch::Sender<Instant>);

impl Exchange {
    /// Sets the deadline to `duration` from now, in place of the limit.
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

/// Answers until the token is cancelled; then pending answers have a second to end.
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
                    warn!(%listen, %error, suppressed_lines = left_out, "cannot accept a connection");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    // Longer answers are aborted.
    let _too_long = timeout(DRAIN_TIMEOUT, drain).await;
    Ok(())
}

/// The next connection, once there is a permit for it.
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
                // Every sender that could extend the deadline lives as long as the connection.
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

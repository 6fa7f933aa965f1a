//! The sockets that CoreDNS dials.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use metrics::{counter, gauge};
use runtime::listen::{self, Access, ListenAddress};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use super::{Ingest, connection};

/// A bound socket.
#[derive(Debug)]
pub struct Listener(listen::Listener);

impl Listener {
    /// Binds the address. A socket's file is for user and group, as CoreDNS may run as another user of the same group.
    ///
    /// # Errors
    /// Those of [`listen::Listener::bind`], with the address.
    pub async fn bind(address: &ListenAddress) -> anyhow::Result<Self> {
        let socket = listen::Listener::bind(address, Access::Group)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let bound = socket.address();
        if let ListenAddress::Tcp(wanted) = bound
            && !wanted.ip().is_loopback()
        {
            warn!(listen = %bound, "whoever reaches this address can open what the rules name: keep it to CoreDNS");
        }
        info!(listen = %bound, "listening for dnstap");
        Ok(Self(socket))
    }

    /// Accepts and reads connections until `shutdown`, then reads what is in their buffers and lets them go.
    ///
    /// # Errors
    /// The socket is broken for good.
    pub async fn run(
        self,
        ingest: Ingest,
        permits: Arc<Semaphore>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut connections = JoinSet::new();
        let accepted =
            counter!("collector_connections_total", "listener" => self.0.address().to_string());
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    if let Err(error) = ended {
                        bail!("a connection's task failed: {error}");
                    }
                    continue;
                }
                stream = self.0.accept() => stream,
            };
            let (stream, peer) = match stream {
                Ok(accepted) => accepted,
                // Out of file descriptors, or the peer left before it was accepted: neither ends the listener.
                Err(error) => {
                    counter!("collector_connection_errors_total", "reason" => "accept")
                        .increment(1);
                    warn!(listen = %self.0.address(), %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            accepted.increment(1);
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                counter!("collector_connection_errors_total", "reason" => "too_many").increment(1);
                if let Some(left_out) = ingest.complaints.pass() {
                    warn!(listen = %self.0.address(), peer, limit = ingest.limits.connections, left_out, "connection refused: too many");
                }
                continue;
            };
            let (ingest, shutdown) = (ingest.clone(), shutdown.clone());
            let span = info_span!("dnstap", listen = %self.0.address(), peer);
            let task = async move {
                gauge!("collector_connections").increment(1.0);
                match connection::read(stream, &ingest, shutdown).await {
                    Ok(frames) => debug!(frames, "stream ended"),
                    Err(error) => {
                        counter!("collector_connection_errors_total", "reason" => error.reason())
                            .increment(1);
                        if let Some(left_out) = ingest.complaints.pass() {
                            warn!(%error, left_out, "stream closed");
                        }
                    }
                }
                gauge!("collector_connections").decrement(1.0);
                drop(permit);
            };
            connections.spawn(task.instrument(span));
        }
        // New peers are refused from here on, so that CoreDNS's one immediate redial finds another replica.
        drop(self);
        while connections.join_next().await.is_some() {}
        Ok(())
    }
}

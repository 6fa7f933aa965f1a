//! The sockets that CoreDNS dials.

use std::time::Duration;

use anyhow::{Context, bail};
use metrics::{counter, gauge};
use runtime::{
    listen::{self, Access, ListenAddress, Peer, Stream},
    reload::Reloaded,
};
use tokio::{task::JoinSet, time::timeout};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::listen::{
    Ingest,
    connection::{self, HANDSHAKE},
    connection_table::ConnectionPermit,
    error::Error,
    peer_acl::PeerStatus,
};

/// The idle time of a TCP connection before keepalive probes. The connection ends after as long a
/// silence again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The TLS configuration of a `tls://` listener, of the newest certificate files.
pub type Acceptor = Reloaded<ServerConfig>;

#[derive(Debug)]
pub struct Listener {
    socket: listen::Listener,
    tls: Option<Acceptor>,
}

impl Listener {
    /// Binds the address. A unix socket gets mode 0660 unless its URL says otherwise, since CoreDNS
    /// may run as another user of the same group. `tls` is for `tls://`.
    ///
    /// # Errors
    /// Those of [`listen::Listener::bind`], with the address; `tls://` without a certificate.
    pub async fn bind(address: &ListenAddress, tls: Option<&Acceptor>) -> anyhow::Result<Self> {
        let tls = match (address, tls) {
            (ListenAddress::Tls(_), None) => bail!("{address} needs a certificate"),
            (ListenAddress::Tls(_), tls) => tls.cloned(),
            _ => None,
        };
        let socket = listen::Listener::bind(address, Access::Group)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        socket
            .keep_alive(KEEP_ALIVE)
            .with_context(|| format!("connections to {address} cannot be kept alive"))?;
        info!(listen = %socket.address(), "listening for dnstap");
        Ok(Self { socket, tls })
    }

    /// Accepts and reads connections until `shutdown`, then reads the data in their buffers and
    /// closes them.
    ///
    /// # Errors
    /// The socket fails for good.
    pub async fn run(self, ingest: Ingest, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut connections = JoinSet::new();
        let listen = self.socket.address().to_string();
        let accepted =
            counter!("egress_collector_connections_accepted_total", "listener" => listen.clone());
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    if let Err(error) = ended {
                        bail!("a connection's task failed: {error}");
                    }
                    continue;
                }
                stream = self.socket.accept() => stream,
            };
            let (stream, peer) = match stream {
                Ok(accepted) => accepted,
                // No reason to end the listener: file descriptors ran out, or the peer left before
                // it was accepted.
                Err(error) => {
                    count_error("accept");
                    if let Some(suppressed) = ingest.log_limits.complaints.allow() {
                        warn!(listen, %error, suppressed_lines = suppressed, "cannot accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            accepted.increment(1);
            let (permit, status) = match self.admit(&peer, &ingest) {
                Ok(admitted) => admitted,
                Err(reason) => {
                    count_error(reason);
                    if let Some(suppressed) = ingest.log_limits.complaints.allow() {
                        let reason = refusal(reason);
                        warn!(listen, %peer, reason, suppressed_lines = suppressed, "refusing a dnstap connection of this peer");
                    }
                    continue;
                }
            };
            let span = info_span!("dnstap", listen, %peer);
            let (ingest, shutdown) = (ingest.clone(), shutdown.clone());
            let tls = self.tls.as_ref().map(Reloaded::load);
            let task = async move {
                gauge!("egress_collector_connections").increment(1.0);
                let read = match tls {
                    None => connection::read(stream, permit, status, &ingest, shutdown).await,
                    Some(tls) => {
                        let tls = TlsAcceptor::from(tls);
                        read_tls(tls, stream, permit, status, &ingest, shutdown).await
                    }
                };
                match read {
                    Ok(frames) => debug!(frames, "stream ended"),
                    Err(error) => {
                        count_error(error.reason());
                        if let Some(suppressed) = ingest.log_limits.complaints.allow() {
                            warn!(%error, suppressed_lines = suppressed, "stream closed");
                        }
                    }
                }
                gauge!("egress_collector_connections").decrement(1.0);
            };
            connections.spawn(task.instrument(span));
        }
        // New connections are refused from here on, so that CoreDNS's one immediate redial reaches
        // another replica.
        drop(self);
        while connections.join_next().await.is_some() {}
        Ok(())
    }

    /// Takes a permit for a peer, or returns the label of the limit that refuses it.
    fn admit(
        &self,
        peer: &Peer,
        ingest: &Ingest,
    ) -> Result<(ConnectionPermit, PeerStatus), &'static str> {
        let status = ingest.peer_acl.status(self.socket.address(), peer);
        if !status.is_known() && !status.may_change() {
            return Err("unknown_peer");
        }
        let permit = ingest.connections.permit(peer, status.is_known())?;
        Ok((permit, status))
    }
}

async fn read_tls(
    acceptor: TlsAcceptor,
    stream: Stream,
    permit: ConnectionPermit,
    status: PeerStatus,
    ingest: &Ingest,
    shutdown: CancellationToken,
) -> Result<u64, Error> {
    let handshake = shutdown.run_until_cancelled(timeout(HANDSHAKE, acceptor.accept(stream)));
    let stream = match handshake.await {
        None => return Ok(0),
        Some(Err(_)) => return Err(Error::HandshakeTimeout(HANDSHAKE)),
        Some(Ok(stream)) => stream.map_err(Error::Tls)?,
    };
    connection::read(stream, permit, status, ingest, shutdown).await
}

/// What the log says of a refused connection, by its metric label.
fn refusal(reason: &'static str) -> &'static str {
    match reason {
        "unknown_peer" => {
            "no EndpointSlice of --resolver-service and no --allow-peer has the address"
        }
        "too_many" => "1,000 connections are open, the most",
        "too_many_of_peer" => "the peer has 64 connections, the most of one peer",
        "too_many_unknown" => "unknown peers have half of all connections",
        other => other,
    }
}

fn count_error(reason: &'static str) {
    counter!("egress_collector_connection_errors_total", "reason" => reason).increment(1);
}

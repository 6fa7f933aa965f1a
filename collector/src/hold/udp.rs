//! Queries over UDP.

use std::{io, net::SocketAddr, sync::Arc};

use proto::dns::Query;
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{MAX, forwarder::Forwarder, upstream::Transport};

/// A port of clients from which no query comes.
const NO_CLIENT: u16 = 1;

/// Forwards queries until `closing`. From then on the kernel refuses queries, while answers in flight still go out.
pub(super) async fn serve(
    socket: Arc<UdpSocket>,
    forwarder: &Arc<Forwarder>,
    closing: &CancellationToken,
) {
    let mut buffer = vec![0; MAX];
    let mut last = None;
    while let Some(received) = closing
        .run_until_cancelled(socket.recv_from(&mut buffer))
        .await
    {
        last = forward(&socket, forwarder, received, &buffer).or(last);
    }
    let Some(client) = last else { return };
    // A connected socket takes datagrams of one address only, and the kernel reports a closed port to all others.
    if let Err(error) = socket.connect((client.ip(), NO_CLIENT)).await {
        warn!(%error, "the socket of --hold-listen takes queries without an answer until it is closed");
    }
    while let Ok(received) = socket.try_recv_from(&mut buffer) {
        forward(&socket, forwarder, Ok(received), &buffer);
    }
}

/// Forwards a datagram, and returns its client.
fn forward(
    socket: &Arc<UdpSocket>,
    forwarder: &Arc<Forwarder>,
    received: io::Result<(usize, SocketAddr)>,
    buffer: &[u8],
) -> Option<SocketAddr> {
    // An error is one of an earlier reply, whose client is gone.
    let (length, client) = received.ok()?;
    if let Some(query) = buffer.get(..length).and_then(Query::new)
        && let Some(permit) = forwarder.begin()
    {
        let (socket, forwarder) = (Arc::clone(socket), Arc::clone(forwarder));
        tokio::spawn(async move {
            if let Some(reply) = forwarder.answer(&query, Transport::Udp).await
                && let Err(error) = socket.send_to(&reply, client).await
            {
                debug!(%client, %error, "an answer is not sent");
            }
            drop(permit);
        });
    }
    Some(client)
}

//! From a remote to an open socket, with a time-out for each step.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};

use super::{
    super::remote::{HostPort, Remote},
    Connection, TransportError, TransportOptions,
    liveness::Probe,
    local::Local,
    tls::{Handshake, TlsError},
};

/// The bytes that the kernel buffers for a unix socket before the server reads them; the system's default maximum is
/// 416 KiB.
const SEND_BUFFER: usize = 1 << 20;

/// The maximum number of addresses to try per name.
const MOST_ADDRESSES: usize = 16;

/// Opens a connection.
pub(crate) async fn connect(
    remote: &Remote,
    options: &TransportOptions,
) -> Result<Connection, TransportError> {
    let limit = options.connect_timeout;
    let network_probe = options.inactivity_probe.map(Probe::of_network);
    match remote {
        Remote::Unix(path) => {
            let stream = Local::new(within(limit, UnixStream::connect(path)).await??)?;
            // Bytes that do not fit wait until this side is idle, and the server would wait for them.
            set_socket_send_buffer_size(stream.socket(), SEND_BUFFER).map_err(io::Error::from)?;
            let probe = Probe::of_local_socket(options.local_probe);
            Connection::new(stream, Some(probe), options)
        }
        Remote::Tcp(address) => {
            let stream = tcp(address, limit).await?;
            Connection::new(stream, network_probe, options)
        }
        Remote::Ssl(address) => {
            let tls = options.tls.as_ref().ok_or(TlsError::NotConfigured)?;
            let handshake = within(limit, Handshake::prepare(tls, &address.host)).await??;
            let stream = tcp(address, limit).await?;
            let stream = within(limit, handshake.make(stream))
                .await?
                .map_err(TransportError::Handshake)?;
            Connection::new(stream, network_probe, options)
        }
    }
}

/// Tries the addresses of a host until one connects.
async fn tcp(address: &HostPort, limit: Duration) -> Result<TcpStream, TransportError> {
    let looked_up = within(limit, lookup_host((address.host.as_str(), address.port))).await??;
    let mut addresses: Vec<SocketAddr> = looked_up.collect();
    // One name may stand for all servers of a cluster, of which only one may be usable.
    fastrand::shuffle(&mut addresses);
    let mut last = TransportError::NoAddress(address.host.clone());
    for address in addresses.into_iter().take(MOST_ADDRESSES) {
        match within(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error.into(),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn within<T>(limit: Duration, step: impl Future<Output = T>) -> Result<T, TransportError> {
    timeout(limit, step)
        .await
        .map_err(|_| TransportError::ConnectTimeout(limit))
}

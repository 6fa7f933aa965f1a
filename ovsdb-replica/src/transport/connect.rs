//! From a remote to an open socket, with a limit of time for each step.

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

/// Bytes that the kernel takes of a unix socket before the server reads them; it allows 416 KiB in all unless it was told else.
const SEND_BUFFER: usize = 1 << 20;

/// Addresses of one name that are tried.
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
            // What does not fit waits until this side has nothing else to do, and meanwhile the server would wait.
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

/// Tries the addresses of a host until one answers.
async fn tcp(address: &HostPort, limit: Duration) -> Result<TcpStream, TransportError> {
    let looked_up = within(limit, lookup_host((address.host.as_str(), address.port))).await??;
    let mut addresses: Vec<SocketAddr> = looked_up.collect();
    // Behind one name there may be all servers of a cluster, and only one of them may do.
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

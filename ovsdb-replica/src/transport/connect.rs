//! From a remote to an open socket, with a time-out for each step.

use std::{future::Future, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};

use super::{
    super::remote::{HostPort, Remote},
    Connection, TransportError, TransportOptions,
    tls::{Handshake, TlsError},
};

/// How many times longer a local server may be silent.
const LOCAL_PATIENCE: u32 = 6;

/// The maximum number of addresses to try per name.
const MOST_ADDRESSES: usize = 16;

/// Opens a connection.
pub(crate) async fn connect(
    remote: &Remote,
    options: &TransportOptions,
) -> Result<Connection, TransportError> {
    let limit = options.connect_timeout;
    let (probe, limits) = (options.inactivity_probe, options.limits);
    match remote {
        Remote::Unix(path) => {
            let stream = within(limit, UnixStream::connect(path)).await??;
            Connection::new(stream, LOCAL_PATIENCE * probe, limits)
        }
        Remote::Tcp(address) => Connection::new(tcp(address, limit).await?, probe, limits),
        Remote::Ssl(address) => {
            let tls = options.tls.as_ref().ok_or(TlsError::NotConfigured)?;
            let handshake = within(limit, Handshake::prepare(tls, &address.host)).await??;
            let stream = tcp(address, limit).await?;
            let stream = within(limit, handshake.make(stream))
                .await?
                .map_err(TransportError::Handshake)?;
            Connection::new(stream, probe, limits)
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

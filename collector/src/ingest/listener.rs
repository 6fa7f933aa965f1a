//! The sockets that CoreDNS dials.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use metrics::{counter, gauge};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use super::{Ingest, connection};
use crate::args::ListenAddress;

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
}

#[derive(Debug)]
enum Socket {
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
    Tcp(TcpListener),
}

type Stream = Pin<Box<dyn Duplex>>;

trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Listener {
    /// Binds the address. A socket file that nobody listens on is replaced; the file's mode is 0660.
    ///
    /// # Errors
    /// The address is in use, the path is something other than a socket, or the system refuses.
    pub async fn bind(address: &ListenAddress) -> anyhow::Result<Self> {
        let (socket, address) = match address {
            ListenAddress::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)
                    .await
                    .with_context(|| format!("cannot listen on {address}"))?;
                let bound = ListenAddress::Tcp(listener.local_addr()?);
                if !wanted.ip().is_loopback() {
                    warn!(listen = %bound, "whoever reaches this address can open what the rules name: keep it to CoreDNS");
                }
                (Socket::Tcp(listener), bound)
            }
            ListenAddress::Unix(path) => {
                let listener = bind_unix(path)
                    .await
                    .with_context(|| format!("cannot listen on {address}"))?;
                let _file = SocketFile::new(path)?;
                (Socket::Unix { listener, _file }, address.clone())
            }
        };
        info!(listen = %address, "listening for dnstap");
        Ok(Self { socket, address })
    }

    /// The address, with the port that was found for port 0.
    pub fn address(&self) -> &ListenAddress {
        &self.address
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
            counter!("collector_connections_total", "listener" => self.address.to_string());
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    if let Err(error) = ended {
                        bail!("a connection's task failed: {error}");
                    }
                    continue;
                }
                stream = self.accept() => stream,
            };
            let (stream, peer) = match stream {
                Ok(accepted) => accepted,
                // Out of file descriptors, or the peer left before it was accepted: neither ends the listener.
                Err(error) => {
                    counter!("collector_connection_errors_total", "reason" => "accept")
                        .increment(1);
                    warn!(listen = %self.address, %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            accepted.increment(1);
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                counter!("collector_connection_errors_total", "reason" => "too_many").increment(1);
                if let Some(left_out) = ingest.complaints.pass() {
                    warn!(listen = %self.address, peer, limit = ingest.limits.connections, left_out, "connection refused: too many");
                }
                continue;
            };
            let (ingest, shutdown) = (ingest.clone(), shutdown.clone());
            let span = info_span!("dnstap", listen = %self.address, peer);
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

    async fn accept(&self) -> io::Result<(Stream, String)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Box::pin(stream), peer.to_string()))
            }
            Socket::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
                let peer = pid.map_or_else(|| "unix".to_owned(), |pid| format!("pid {pid}"));
                Ok((Box::pin(stream), peer))
            }
        }
    }
}

async fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(meta) if !meta.file_type().is_socket() => bail!("the path exists and is no socket"),
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => bail!("another program listens there"),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error).context("the socket there cannot be examined"),
        },
    }
    let listener = UnixListener::bind(path)?;
    // CoreDNS may run as another user of the same group; everybody else stays out.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Removes the socket's file at the end, unless another program has put its own there.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            inode: fs::symlink_metadata(path)?.ino(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // Nothing is lost if it stays: the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;

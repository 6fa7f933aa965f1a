//! The sockets of hickory's queries.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{
    FutureExt,
    io::{AsyncRead, AsyncWrite},
};
use hickory_net::runtime::{DnsTcpStream, DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime};
use metrics::counter;
use parking_lot::Mutex;
use tokio::{io::Interest, net};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use crate::matching::query_origin::OwnQueries;

/// Opens sockets on tokio. The background tasks of its connections end when the last clone is
/// dropped.
#[derive(Clone)]
pub(super) struct Provider {
    handle: TokioHandle,
    own: OwnQueries,
}

type Opening<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

impl Provider {
    pub(super) fn new(own: OwnQueries) -> Self {
        Self {
            handle: TokioHandle::default(),
            own,
        }
    }
}

impl RuntimeProvider for Provider {
    type Handle = TokioHandle;
    type Timer = TokioTime;
    type Udp = UdpSocket;
    type Tcp = TcpStream;

    fn create_handle(&self) -> TokioHandle {
        self.handle.clone()
    }

    /// The socket is connected, which hickory does not need. The kernel then drops packets of other
    /// hosts, and reports a closed port at once. Linux accepts `sendto` on it for the same peer.
    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> Opening<UdpSocket> {
        let own = self.own.clone();
        Box::pin(async move {
            let socket = Arc::new(net::UdpSocket::bind(own.source(server).unwrap_or(local)).await?);
            socket.connect(server).await?;
            // Counted here, since a resent query has another socket.
            counter!("egress_collector_lookup_queries_total", "transport" => "udp").increment(1);
            let failure = Mutex::new(Box::pin(failure_of(Arc::clone(&socket)).fuse()) as Failing);
            Ok(UdpSocket { socket, failure })
        })
    }

    /// Ignores `limit`: the caller has a time-out for the whole exchange.
    fn connect_tcp(
        &self,
        server: SocketAddr,
        _bind: Option<SocketAddr>,
        _limit: Option<Duration>,
    ) -> Opening<TcpStream> {
        let own = self.own.clone();
        Box::pin(async move { Ok(TcpStream(own.connect(server).await?.compat())) })
    }
}

/// The socket of one UDP query.
pub(super) struct UdpSocket {
    socket: Arc<net::UdpSocket>,
    failure: Mutex<Failing>,
}

type Failing = Pin<Box<dyn Future<Output = io::Error> + Send>>;

/// Waits until the network reports an error. For tokio, an ICMP error alone does not make a socket
/// readable.
async fn failure_of(socket: Arc<net::UdpSocket>) -> io::Error {
    loop {
        if let Err(error) = socket.ready(Interest::ERROR).await {
            return error;
        }
        match socket.take_error() {
            Ok(Some(error)) | Err(error) => return error,
            Ok(None) => {
                // A false alarm: clears the readiness and waits for the next one.
                let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                let _ = socket.try_io(Interest::ERROR, nothing);
            }
        }
    }
}

impl DnsUdpSocket for UdpSocket {
    type Time = TokioTime;

    fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let received = DnsUdpSocket::poll_recv_from(&*self.socket, cx, buffer);
        if received.is_ready() {
            return received;
        }
        self.failure.lock().as_mut().poll(cx).map(Err)
    }

    fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buffer: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_send_to(cx, buffer, target)
    }
}

/// A TCP connection, shared by the queries to one server.
pub(super) struct TcpStream(Compat<net::TcpStream>);

impl DnsTcpStream for TcpStream {
    type Time = TokioTime;
}

impl AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

//! The sockets of hickory's queries, and the TCP connections that are reused.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use hickory_net::{
    NetError,
    proto::op::{DnsRequest, DnsResponse},
    runtime::{DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime, iocompat::AsyncIoTokioAsStd},
    xfer::{DnsExchange, DnsHandle},
};
use metrics::counter;
use parking_lot::Mutex;
use tokio::{io::Interest, net};

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
    type Tcp = AsyncIoTokioAsStd<net::TcpStream>;

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
    ) -> Opening<Self::Tcp> {
        let own = self.own.clone();
        Box::pin(async move { Ok(AsyncIoTokioAsStd(own.connect(server).await?)) })
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
pub(crate) async fn failure_of(socket: impl Deref<Target = net::UdpSocket>) -> io::Error {
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

/// The TCP connections to a server, which are reused (RFC 7766 section 6.2.1), but by one query at a time. CoreDNS answers
/// the queries of a connection in order, so a slow name would delay those behind it. They are never more than the most queries
/// that ran at once.
#[derive(Default)]
pub(super) struct Connections {
    idle: Mutex<Vec<DnsExchange<Provider>>>,
}

impl Connections {
    /// Sends the query and returns the first answer that `fits`. `connect` makes a new connection. If the server has closed a reused
    /// connection, as it may at any time, the query is sent over a new one. A connection without an
    /// answer is not reused.
    ///
    /// # Errors
    /// No connection, every connection broke, or no answer in time.
    pub(super) async fn ask(
        &self,
        connect: impl Future<Output = Result<DnsExchange<Provider>, NetError>>,
        request: &DnsRequest,
        fits: impl Fn(&DnsResponse) -> bool,
    ) -> Result<DnsResponse, NetError> {
        let idle = self.idle.lock().pop();
        if let Some(connection) = idle {
            match first(&connection, request, &fits).await {
                Ok(response) => {
                    self.idle.lock().push(connection);
                    return Ok(response);
                }
                Err(NetError::Timeout) => return Err(NetError::Timeout),
                Err(_) => {}
            }
        }
        let connection = connect.await?;
        let response = first(&connection, request, &fits).await?;
        self.idle.lock().push(connection);
        Ok(response)
    }
}

async fn first(
    connection: &DnsExchange<Provider>,
    request: &DnsRequest,
    fits: impl Fn(&DnsResponse) -> bool,
) -> Result<DnsResponse, NetError> {
    let mut responses = connection.send(request.clone());
    while let Some(response) = responses.next().await {
        let response = response?;
        if fits(&response) {
            return Ok(response);
        }
    }
    Err(NetError::Timeout)
}

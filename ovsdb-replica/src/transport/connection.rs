//! The session's view of a connection: jsonrpsee for requests, and one order for all incoming messages.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::FutureExt;
use jsonrpsee_core::{
    client::async_client::{Client, ClientBuilder, RpcService},
    middleware::{Request, RpcServiceBuilder, RpcServiceT},
};
use jsonrpsee_types::Id;
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::unconstrained,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Framing, Limits, MessageError, TransportError,
    message::{Notification, Reply},
    receiver::Receiver,
    writer::{self, Sender},
};

/// The bytes that may wait for the session. Above it nothing is read: the server then merges its updates instead of
/// sending each one. It is so much that a session may be busy for some seconds, since a server disconnects a client
/// that does not answer its echo for 10 s.
pub(super) const ROOM: usize = 4 << 20;

/// The echoes that may wait until the server reads.
const WAITING_ECHOES: usize = 4;

/// A message for the session.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to a request.
    Reply(Reply),
    /// An unsolicited message.
    Notification(Notification),
}

/// A message and its room, or the reason for the end.
pub(super) type Delivered = Result<(Received, OwnedSemaphorePermit), TransportError>;

/// A connection.
pub(crate) struct Connection {
    service: RpcService,
    messages: mpsc::UnboundedReceiver<Delivered>,
    /// Notifications that came before a reply that was waited for.
    earlier: VecDeque<(Received, OwnedSemaphorePermit)>,
    /// Dropping it ends jsonrpsee's tasks, and with them the reading.
    _rpc: Client<()>,
    /// Dropping it ends the writing, and discards what was not sent: a transaction must not arrive later.
    _writing: AbortOnDropHandle<()>,
}

impl Connection {
    /// Passes a socket to jsonrpsee. `probe` is the silence after which the server is probed.
    pub(super) fn new(
        socket: impl AsyncRead + AsyncWrite + Send + 'static,
        probe: Duration,
        limits: Limits,
    ) -> Result<Self, TransportError> {
        let (reading, writing) = split(socket);
        let (delivery, messages) = mpsc::unbounded_channel();
        let (echoes, waiting_echoes) = mpsc::channel(WAITING_ECHOES);
        let (requests, waiting_requests) = mpsc::unbounded_channel();
        let reasons = delivery.clone();
        let writing = tokio::spawn(async move {
            if let Err(error) = writer::write(writing, waiting_echoes, waiting_requests).await {
                // Without a session no reason is needed.
                let _dropped = reasons.send(Err(error.into()));
            }
        });
        let receiver = Receiver {
            socket: reading,
            input: BytesMut::new(),
            framing: Framing::new(limits),
            probe,
            echoes,
            room: Arc::new(Semaphore::new(ROOM)),
            messages: delivery,
        };
        let service = Arc::new(OnceLock::new());
        let layer = service.clone();
        // The service below `Client::request`, which would start a timer on another thread for each call.
        let layers =
            RpcServiceBuilder::new().layer_fn(move |service: RpcService| drop(layer.set(service)));
        let rpc = ClientBuilder::new()
            // Requests are queued at once, and never wait for room.
            .max_concurrent_requests(Semaphore::MAX_PERMITS)
            .set_rpc_middleware(layers)
            .build_with_tokio(Sender(requests), receiver);
        let no_service = || MessageError::Rpc("jsonrpsee made no service".to_owned());
        Ok(Self {
            service: service.get().cloned().ok_or_else(no_service)?,
            messages,
            earlier: VecDeque::new(),
            _rpc: rpc,
            _writing: AbortOnDropHandle::new(writing),
        })
    }

    /// Sends a request after the earlier ones. Its id must be unique. The parameters must be an array.
    pub(crate) fn send(
        &mut self,
        id: u64,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let mut request = Request::borrowed(method, None, Id::Number(id));
        request.params = Some(Cow::Owned(to_raw_value(params)?));
        // The first poll queues the request, even if the task's budget is spent. The reply comes as a message.
        drop(unconstrained(self.service.call(request)).now_or_never());
        Ok(())
    }

    /// Waits for the next message, until the deadline: `None` if there was none. Cancel-safe.
    pub(crate) async fn receive(
        &mut self,
        until: Option<Instant>,
    ) -> Result<Option<Received>, TransportError> {
        if let Some((received, _room)) = self.earlier.pop_front() {
            return Ok(Some(received));
        }
        let delivered = self.delivered(until).await?;
        Ok(delivered.map(|(received, _room)| received))
    }

    /// Waits for the next reply, until the deadline: `None` if there was none. Notifications before it wait, and keep
    /// their room.
    pub(crate) async fn reply(&mut self, until: Instant) -> Result<Option<Reply>, TransportError> {
        loop {
            match self.delivered(Some(until)).await? {
                Some((Received::Reply(reply), _room)) => return Ok(Some(reply)),
                Some(notification) => self.earlier.push_back(notification),
                None => return Ok(None),
            }
        }
    }

    async fn delivered(
        &mut self,
        until: Option<Instant>,
    ) -> Result<Option<(Received, OwnedSemaphorePermit)>, TransportError> {
        let delivery = self.messages.recv();
        let delivered = match until {
            Some(until) => match timeout_at(until, delivery).await {
                Ok(delivered) => delivered,
                Err(_) => return Ok(None),
            },
            None => delivery.await,
        };
        let ended = || MessageError::Rpc("jsonrpsee ended the connection".to_owned());
        delivered.ok_or_else(ended)?.map(Some)
    }
}

//! The session's view of a connection: jsonrpsee for requests and replies, and one order for all incoming messages.

use std::{
    borrow::Cow,
    future::{self, Future, poll_fn},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker, ready},
};

use jsonrpsee_core::{
    client::{
        Error as RpcError, MiddlewareMethodResponse, ReceivedMessage, TransportReceiverT,
        TransportSenderT,
        async_client::{Client, ClientBuilder, RpcService},
    },
    middleware::{Request, RpcServiceBuilder, RpcServiceT},
};
use jsonrpsee_types::Id;
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::{
    sync::Semaphore,
    task::unconstrained,
    time::{Instant, timeout_at},
};

use super::{
    MessageError, TransportError, TransportOptions,
    inbox::{End, Received},
    liveness::Probe,
    message,
    wire::{SharedWire, Stream, Wire},
};

/// jsonrpsee's error texts are cut here: they may contain a whole message.
const LONGEST_WORDS: usize = 200;

type Answer = Result<MiddlewareMethodResponse, RpcError>;
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A connection.
pub(crate) struct Connection {
    /// Dropping it ends its tasks.
    rpc: Client<()>,
    service: RpcService,
    wire: SharedWire,
    /// The requests without a reply, the oldest first. They are few, and most replies are to the first.
    calls: Vec<(u64, Call)>,
    is_responsive: bool,
}

impl Connection {
    /// Passes a socket to jsonrpsee.
    pub(super) fn new(
        stream: impl Stream + 'static,
        probe: Option<Probe>,
        options: &TransportOptions,
    ) -> Result<Self, TransportError> {
        let wire = SharedWire::new(Wire::new(stream, probe, options));
        let service = Arc::new(OnceLock::new());
        let layer = service.clone();
        // The service below `Client::request`, which would start a timer on another thread for each call.
        let layers =
            RpcServiceBuilder::new().layer_fn(move |service: RpcService| drop(layer.set(service)));
        let rpc = ClientBuilder::new()
            // Requests are queued at once, and never wait for room.
            .max_concurrent_requests(Semaphore::MAX_PERMITS)
            .set_rpc_middleware(layers)
            .build_with_tokio(Sender(wire.clone()), Receiver(wire.clone()));
        let no_service = || MessageError::Rpc("jsonrpsee made no service".to_owned());
        Ok(Self {
            rpc,
            service: service.get().cloned().ok_or_else(no_service)?,
            wire,
            calls: Vec::new(),
            is_responsive: true,
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
        let service = self.service.clone();
        // The first poll queues the request, even if the task's budget is spent.
        let call = begun(unconstrained(async move { service.call(request).await }));
        self.calls.push((id, call));
        Ok(())
    }

    /// Waits for the next message for the session, until the deadline: `None` if there was none. Cancel-safe.
    pub(crate) async fn receive(
        &mut self,
        until: Option<Instant>,
    ) -> Result<Option<Received>, TransportError> {
        let receiving = poll_fn(|context| self.poll_inbox(context));
        let received = match until {
            Some(until) => timeout_at(until, receiving).await.ok(),
            None => Some(receiving.await),
        };
        match received.transpose() {
            Ok(received) => Ok(received),
            Err(End::Transport(error)) => Err(error),
            Err(End::Rpc) => Err(rpc_error(self.rpc.on_disconnect().await)),
        }
    }

    /// Whether the server answered the last probe.
    pub(crate) fn is_responsive(&self) -> bool {
        self.is_responsive
    }

    fn poll_inbox(&mut self, context: &mut Context<'_>) -> Poll<Result<Received, End>> {
        let mut wire = self.wire.lock();
        let Some(front) = wire.inbox.front() else {
            return match wire.inbox.ended() {
                Some(end) => Poll::Ready(Err(end)),
                None => {
                    wire.inbox.waits(context.waker());
                    Poll::Pending
                }
            };
        };
        // All messages before a reply have been taken.
        if let Received::Reply(reply) = front {
            let mut calls = self.calls.iter_mut().enumerate();
            let Some((at, (_, call))) = calls.find(|(_, (call, _))| *call == reply.id) else {
                let error = MessageError::NoRequest(reply.id.to_string());
                return Poll::Ready(Err(End::Transport(error.into())));
            };
            let answer = ready!(call.as_mut().poll(context));
            drop(self.calls.remove(at));
            if matches!(&reply.result, Err(error) if error.len() == 0) {
                let error = MessageError::Empty(reply.id);
                return Poll::Ready(Err(End::Transport(error.into())));
            }
            if answer.is_err() {
                return Poll::Ready(Err(End::Rpc));
            }
        }
        let received = wire.take().ok_or(End::Rpc);
        if let Ok(Received::Responsive(responsive)) = received {
            self.is_responsive = responsive;
        }
        Poll::Ready(received)
    }
}

impl Drop for Connection {
    /// Discards unsent data, even if the tasks live a moment longer.
    fn drop(&mut self) {
        self.wire.lock().close();
    }
}

/// Polls a call for the first time. With several threads its answer may already exist.
fn begun(call: impl Future<Output = Answer> + Send + 'static) -> Call {
    let mut call: Call = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Box::pin(future::ready(answer)),
        Poll::Pending => call,
    }
}

/// Why jsonrpsee ended its tasks.
fn rpc_error(error: RpcError) -> TransportError {
    let mut words = match error {
        RpcError::RestartNeeded(reason) => reason.to_string(),
        other => other.to_string(),
    };
    words.truncate(words.floor_char_boundary(LONGEST_WORDS));
    MessageError::Rpc(words).into()
}

/// Writes requests to the socket.
struct Sender(SharedWire);

impl TransportSenderT for Sender {
    type Error = MessageError;

    async fn send(&mut self, request: String) -> Result<(), MessageError> {
        let request = message::outgoing(&request)?;
        self.0.lock().send(request);
        Ok(())
    }
}

/// Reads the socket. jsonrpsee gets only the replies; other messages go to the session.
struct Receiver(SharedWire);

/// The session has the reason.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended")]
struct Ended;

impl TransportReceiverT for Receiver {
    type Error = Ended;

    async fn receive(&mut self) -> Result<ReceivedMessage, Ended> {
        poll_fn(|context| {
            let mut wire = self.0.lock();
            let reply = ready!(wire.poll_reply(context));
            Poll::Ready(reply.map(ReceivedMessage::Bytes).map_err(|error| {
                wire.inbox.end(End::Transport(error));
                Ended
            }))
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.lock().inbox.end(End::Rpc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_there_before_anything_waits_for_it_is_kept() {
        let answer = begun(future::ready(Err(RpcError::RequestTimeout))).await;
        assert!(matches!(answer, Err(RpcError::RequestTimeout)));
    }
}

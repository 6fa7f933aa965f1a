//! The reader of the socket, which jsonrpsee's task drives.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use jsonrpsee_core::client::{ReceivedMessage, TransportReceiverT};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadHalf},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::codec::Decoder;

use super::{
    Framing, LONG_MESSAGE, TransportError,
    connection::{Delivered, ROOM, Received},
    message::{self, Incoming},
};

/// Buffer space for each read.
const READ_AHEAD: usize = 64 << 10;

/// The size that each message counts for at least, in bytes.
const LEAST_BYTES: usize = 256;

/// Reads messages, answers echoes, and notices a server that says nothing.
pub(super) struct Receiver<S> {
    pub(super) socket: ReadHalf<S>,
    pub(super) input: BytesMut,
    pub(super) framing: Framing,
    /// The silence after which the server is probed.
    pub(super) probe: Duration,
    /// To the writing task.
    pub(super) echoes: mpsc::Sender<Bytes>,
    /// The bytes that may still wait for the session.
    pub(super) room: Arc<Semaphore>,
    pub(super) messages: mpsc::UnboundedSender<Delivered>,
}

/// The session has the reason.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended")]
pub(super) struct Ended;

impl<S: AsyncRead + Send + 'static> TransportReceiverT for Receiver<S> {
    type Error = Ended;

    /// Reads until a reply, and returns its substitute. jsonrpsee needs no other message.
    async fn receive(&mut self) -> Result<ReceivedMessage, Ended> {
        match self.next_reply().await {
            Ok(id) => Ok(ReceivedMessage::Bytes(message::placeholder(id))),
            Err(error) => {
                // Without a session no reason is needed.
                let _dropped = self.messages.send(Err(error));
                Err(Ended)
            }
        }
    }
}

impl<S: AsyncRead> Receiver<S> {
    /// Passes messages to the session up to the next reply, and returns its id.
    async fn next_reply(&mut self) -> Result<u64, TransportError> {
        loop {
            match self.read().await? {
                Incoming::Reply(reply) => {
                    let id = reply.id;
                    self.deliver(Received::Reply(reply)).await;
                    return Ok(id);
                }
                Incoming::Notification(notification) => {
                    self.deliver(Received::Notification(notification)).await;
                }
                Incoming::Echo(answer) => self.echo(answer),
                Incoming::ProbeReply => {}
            }
        }
    }

    /// Waits for the next message. Silence counts from here, so that time in which nothing was read says nothing about
    /// the server.
    async fn read(&mut self) -> Result<Incoming, TransportError> {
        let mut is_asked = false;
        loop {
            if let Some(message) = self.framing.decode(&mut self.input)? {
                if message.len() > LONG_MESSAGE {
                    // The rest of the buffer would keep the memory of the message.
                    self.input = BytesMut::from(&*self.input);
                }
                return Ok(message::incoming(message)?);
            }
            self.input.reserve(READ_AHEAD);
            match timeout(self.probe, self.socket.read_buf(&mut self.input)).await {
                Ok(Ok(0)) => {
                    self.framing.decode_eof(&mut self.input)?;
                    return Err(TransportError::Closed);
                }
                Ok(Ok(_)) => is_asked = false,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if is_asked => return Err(TransportError::Inactive(2 * self.probe)),
                Err(_) => {
                    is_asked = true;
                    self.echo(Bytes::from_static(message::PROBE));
                }
            }
        }
    }

    /// Sends an echo, unless others wait that the server has not taken. One is enough as a sign of life, and a server
    /// that asks and reads nothing must not fill the memory.
    fn echo(&self, echo: Bytes) {
        let _others_wait = self.echoes.try_send(echo);
    }

    /// Passes a message to the session. Nothing is read until there is room for it.
    async fn deliver(&mut self, received: Received) {
        let text = match &received {
            Received::Reply(reply) => reply.result.as_ref().unwrap_or_else(|error| error),
            Received::Notification(notification) => &notification.params,
        };
        let bytes = text.len().clamp(LEAST_BYTES, ROOM);
        #[expect(clippy::cast_possible_truncation, reason = "the room is 4 MiB")]
        let room = self.room.clone().acquire_many_owned(bytes as u32).await;
        // It fails only if the semaphore is closed, which nothing does.
        if let Ok(room) = room {
            // A session that is gone needs no message.
            let _dropped = self.messages.send(Ok((received, room)));
        }
    }
}

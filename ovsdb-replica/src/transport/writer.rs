//! The task that writes to the socket.

use std::io;

use bytes::Bytes;
use jsonrpsee_core::client::TransportSenderT;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, WriteHalf},
    select,
    sync::mpsc,
};

use super::message::{self, MessageError};

/// jsonrpsee's way to the writing task.
pub(super) struct Sender(pub(super) mpsc::UnboundedSender<Bytes>);

impl TransportSenderT for Sender {
    type Error = MessageError;

    async fn send(&mut self, request: String) -> Result<(), MessageError> {
        let request = message::outgoing(&request)?;
        // Without a task to write it, the session has the reason already.
        let _ended = self.0.send(request);
        Ok(())
    }
}

/// Writes one message after another, echoes first, until the connection is dropped or the socket fails.
///
/// # Errors
/// That of the socket.
pub(super) async fn write(
    mut socket: WriteHalf<impl AsyncWrite>,
    mut echoes: mpsc::Receiver<Bytes>,
    mut requests: mpsc::UnboundedReceiver<Bytes>,
) -> io::Result<()> {
    loop {
        let message = select! {
            biased;
            Some(echo) = echoes.recv() => echo,
            Some(request) = requests.recv() => request,
            else => return Ok(()),
        };
        socket.write_all(&message).await?;
        socket.flush().await?;
    }
}

//! The control socket of a program of Open vSwitch or OVN (`unixctl`, ovs-appctl(8)): JSON-RPC 1.0, a method for each
//! command.

use std::{path::Path, time::Duration};

use tokio::time::Instant;

use super::{
    error::{Error, ServerError},
    transport::{self, Connection, MessageError, Received, TransportError, TransportOptions},
};

/// A connection to a control socket. It sends only what [`ControlSocket::call`] is given.
pub struct ControlSocket {
    connection: Connection,
    next_id: u64,
}

impl ControlSocket {
    /// Connects to the socket.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn connect(path: &Path) -> Result<Self, Error> {
        let connected = transport::connect_control(path, &TransportOptions::default()).await;
        Ok(Self {
            connection: connected.map_err(Error::Connect)?,
            next_id: 1,
        })
    }

    /// Sends a command, and returns its output. After an error the connection is of no more use.
    ///
    /// # Errors
    /// [`Error::Refused`] with the words of the program; [`Error::Deadline`], [`Error::Lost`] and
    /// [`Error::Malformed`].
    pub async fn call(
        &mut self,
        command: &'static str,
        args: &[&str],
        deadline: Duration,
    ) -> Result<String, Error> {
        let (id, until) = (self.next_id, Instant::now() + deadline);
        self.next_id += 1;
        let malformed = |what| move |source| Error::Malformed { what, source };
        self.connection
            .send(id, command, &args)
            .map_err(malformed("a command"))?;
        match self.connection.receive(Some(until)).await? {
            Some(Received::Reply(reply)) if reply.id == id => match reply.result {
                Ok(output) => output.read().map_err(malformed("the output of a command")),
                Err(error) => Err(Error::Refused {
                    method: command,
                    reason: ServerError::parse(&error.lossy()),
                }),
            },
            Some(Received::Reply(reply)) => {
                let stray = MessageError::NoRequest(reply.id.to_string());
                Err(TransportError::from(stray).into())
            }
            Some(Received::Notification(notification)) => {
                Err(Error::Unexpected(notification.method))
            }
            // Without a probe there is no such event.
            Some(Received::Responsive(_)) | None => Err(Error::Deadline {
                method: command,
                deadline,
            }),
        }
    }
}

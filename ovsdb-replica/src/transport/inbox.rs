//! The received messages that the session has not taken yet, in their order.

use std::{collections::VecDeque, task::Waker};

use super::{
    TransportError,
    message::{Notification, Reply, Text},
};

/// The bytes that may wait. Above it nothing is read from the socket.
const ROOM: usize = 64 << 10;

/// The minimum size that each message counts for, in bytes.
const LEAST_BYTES: usize = 256;

/// A message for the session.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to a request. jsonrpsee has it too, now or in a moment.
    Reply(Reply),
    /// An unsolicited message.
    Notification(Notification),
    /// The server of a unix socket stopped to answer, or answers again.
    Responsive(bool),
}

impl Received {
    fn bytes(&self) -> usize {
        let text = match self {
            Self::Reply(reply) => Some(reply.result.as_ref().unwrap_or_else(|error| error)),
            Self::Notification(notification) => Some(&notification.params),
            Self::Responsive(_) => None,
        };
        text.map_or(0, Text::len).max(LEAST_BYTES)
    }
}

/// The end of the connection.
#[derive(Debug)]
pub(super) enum End {
    /// The socket or its data are unusable.
    Transport(TransportError),
    /// jsonrpsee gave up, and has the reason.
    Rpc,
}

/// A queue between the reading task and the session.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    items: VecDeque<Received>,
    bytes: usize,
    end: Option<End>,
    session: Option<Waker>,
}

impl Inbox {
    pub(super) fn push(&mut self, item: Received) {
        self.bytes = self.bytes.saturating_add(item.bytes());
        self.items.push_back(item);
        self.wake();
    }

    /// Records the end. The first reason counts.
    pub(super) fn end(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.wake();
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= ROOM
    }

    pub(super) fn front(&self) -> Option<&Received> {
        self.items.front()
    }

    pub(super) fn pop(&mut self) -> Option<Received> {
        let item = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(item.bytes());
        Some(item)
    }

    /// The end, once all earlier messages were taken.
    pub(super) fn ended(&mut self) -> Option<End> {
        let end = self.end.take()?;
        self.end = Some(End::Rpc);
        Some(end)
    }

    /// Registers the task of the session, to be woken by the next message.
    pub(super) fn waits(&mut self, session: &Waker) {
        match &mut self.session {
            Some(waker) => waker.clone_from(session),
            None => self.session = Some(session.clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(session) = self.session.take() {
            session.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(length: usize) -> Received {
        Received::Notification(Notification {
            method: "m".to_owned(),
            params: "x".repeat(length).as_str().into(),
        })
    }

    #[test]
    fn it_is_full_by_bytes_whatever_the_number_of_messages() {
        let mut inbox = Inbox::default();
        inbox.push(notification(ROOM));
        assert!(inbox.is_full());
        inbox.push(notification(1));
        assert!(inbox.pop().is_some() && !inbox.is_full());
        assert!(inbox.pop().is_some() && inbox.pop().is_none());
        for _ in 0..ROOM / LEAST_BYTES {
            assert!(!inbox.is_full());
            inbox.push(Received::Responsive(true));
        }
        assert!(inbox.is_full());
    }

    #[test]
    fn the_first_reason_for_the_end_counts_and_is_told_once() {
        let mut inbox = Inbox::default();
        inbox.end(End::Transport(TransportError::Closed));
        inbox.end(End::Rpc);
        let first = inbox.ended();
        assert!(matches!(
            first,
            Some(End::Transport(TransportError::Closed))
        ));
        assert!(matches!(inbox.ended(), Some(End::Rpc)));
    }
}

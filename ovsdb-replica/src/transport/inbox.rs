//! What came and was not taken yet, in the order in which it came.

use std::{collections::VecDeque, task::Waker};

use super::{
    TransportError,
    message::{Notification, Reply, Text},
};

/// Bytes that may wait to be taken. While there are more, nothing is read from the socket.
const ROOM: usize = 64 << 10;

/// What each message counts for at least, in bytes.
const LEAST_BYTES: usize = 256;

/// What is for the session.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to a request. jsonrpsee knows that it came, or will know in a moment.
    Reply(Reply),
    /// What was not asked for.
    Notification(Notification),
    /// The server of a unix socket does not answer, or does so again.
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

/// How the connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The socket, or what came of it, cannot be used any more.
    Transport(TransportError),
    /// jsonrpsee gave it up, and says why.
    Rpc,
}

/// A queue with one end for the task that reads and one for the session.
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

    /// Nothing more comes. The first reason counts.
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

    /// How it ended, once all that came before was taken.
    pub(super) fn ended(&mut self) -> Option<End> {
        let end = self.end.take()?;
        self.end = Some(End::Rpc);
        Some(end)
    }

    /// The task of the session is woken when something comes.
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

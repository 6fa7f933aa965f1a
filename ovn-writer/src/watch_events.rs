//! Events for `/watch`: changes of sets, and when they are realized.

use runtime::inspect::watch::WatchSubscribers;

use crate::{
    realized::{Realized, Ticket},
    sync::SetChange,
};

/// An event of `/watch`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WatchEvent {
    /// The database acknowledged a change of a set.
    Set {
        /// The set, and its change.
        change: SetChange,
        /// The number of an event that follows, which says when the change is realized; `None` if none follows.
        follow_up: Option<u64>,
    },
    /// OVN followed the changes of sets with this number, or it is not known when.
    Realized {
        /// The number.
        follow_up: u64,
        /// The answer to the ticket.
        realized: Realized,
    },
}

/// Tells subscribers of changes.
#[derive(Clone, Debug, Default)]
pub struct WatchedChanges {
    subscribers: WatchSubscribers<WatchEvent>,
    /// The last number of a change that is followed.
    last: u64,
}

impl WatchedChanges {
    /// Those that are told.
    pub fn subscribers(&self) -> WatchSubscribers<WatchEvent> {
        self.subscribers.clone()
    }

    /// Whether there is one.
    pub fn is_open(&self) -> bool {
        self.subscribers.is_open()
    }

    /// Tells of the changes of a transaction, and later of the answer to its ticket.
    pub fn committed(&mut self, changes: Vec<SetChange>, ticket: Option<Ticket>) {
        let follow_up = ticket.map(|ticket| {
            self.last += 1;
            (self.last, ticket)
        });
        let number = follow_up.as_ref().map(|(number, _)| *number);
        for change in changes {
            self.subscribers.offer(WatchEvent::Set {
                change,
                follow_up: number,
            });
        }
        if let Some((follow_up, ticket)) = follow_up {
            let subscribers = self.subscribers.clone();
            // It ends with the ticket, which is answered within seconds.
            tokio::spawn(async move {
                // At the end of the program there is no answer.
                if let Ok(realized) = ticket.await {
                    subscribers.offer(WatchEvent::Realized {
                        follow_up,
                        realized,
                    });
                }
            });
        }
    }
}

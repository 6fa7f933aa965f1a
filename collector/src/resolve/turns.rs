//! Whose turn it is. Names that nobody answered for the last time wait for each other, and no other name for them: each of them
//! takes its whole time again, and there is only so much room at a server.

use std::{collections::VecDeque, num::NonZeroUsize};

use lru::LruCache;
use proto::api::DnsName;

use super::round::Request;

/// How many of those names are remembered. A name that is forgotten has its turn with the others once.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// A request that may begin.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) request: Request,
    /// Whether it takes one of the places for names that nobody answered for.
    unanswered: bool,
}

/// What of a look-up that is over says who may begin.
#[derive(Debug)]
pub(super) struct Ended {
    name: DnsName,
    had_place: bool,
    unanswered: bool,
}

impl Turn {
    /// It is over; was there no answer of any server in time?
    pub(super) fn ended(&self, unanswered: bool) -> Ended {
        Ended {
            name: self.request.name.clone(),
            had_place: self.unanswered,
            unanswered,
        }
    }
}

#[derive(Debug)]
pub(super) struct Turns {
    unanswered: LruCache<DnsName, ()>,
    /// Each name once: the owner asks for none again before it was told of the last time.
    waiting: VecDeque<Request>,
    free: usize,
}

impl Turns {
    /// So many names that nobody answered for may be looked up at the same time.
    pub(super) fn new(places: usize) -> Self {
        Self {
            unanswered: LruCache::new(REMEMBERED),
            waiting: VecDeque::new(),
            free: places,
        }
    }

    /// Takes a request, and gives it back if it may begin.
    pub(super) fn take(&mut self, request: Request) -> Option<Turn> {
        if self.unanswered.contains(&request.name) {
            self.waiting.push_back(request);
            return self.next();
        }
        Some(Turn {
            request,
            unanswered: false,
        })
    }

    /// A look-up is over: which one may begin now because of it?
    pub(super) fn after(&mut self, ended: Ended) -> Option<Turn> {
        if ended.unanswered {
            self.unanswered.put(ended.name, ());
        } else {
            self.unanswered.pop(&ended.name);
        }
        if ended.had_place {
            self.free += 1;
        }
        self.next()
    }

    fn next(&mut self) -> Option<Turn> {
        self.free = self.free.checked_sub(1)?;
        let Some(request) = self.waiting.pop_front() else {
            self.free += 1;
            return None;
        };
        Some(Turn {
            request,
            unanswered: true,
        })
    }
}

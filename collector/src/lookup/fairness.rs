//! Shares the capacity for look-ups between namespaces. Capacity at a server is limited, and an
//! unresponsive name holds its part of it for the longest time.
//!
//! The next look-up belongs to the namespace with the fewest running ones. A namespace may run more
//! look-ups after each answer, and fewer after each look-up without one. Names whose last look-up
//! had no answer share a small pool, so they delay only each other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use lru::LruCache;
use proto::api::DnsName;
use tokio::time::Instant;

use super::result::Request;
use crate::clients::Namespace;

/// The most unresponsive names remembered. A forgotten name runs once like a responsive one.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// One in this many look-ups of a namespace is for a new name, if names with addresses wait too.
const NEW_IN: u32 = 4;

/// A namespace whose look-ups take longer does not get more capacity.
const SLOW: Duration = Duration::from_millis(500);

/// The most requests of one namespace that wait.
const MOST_WAITING: usize = 8_192;

/// A request that may begin.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) request: Request,
    of: Option<Namespace>,
    /// Whether it counts against the pool of unresponsive names.
    unanswered: bool,
    began: Instant,
}

/// The most look-ups that may run at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) all: usize,
    /// For a namespace before its first answer.
    pub(super) least: usize,
    /// For one namespace; the rest is left to others.
    pub(super) most: usize,
    /// For unresponsive names.
    pub(super) unanswered: usize,
}

impl Room {
    /// For a namespace before its first answer. Names without a known namespace are one group,
    /// which has no limit of its own.
    fn least(self, of: Option<Namespace>) -> usize {
        of.map_or(self.all, |_| self.least)
    }

    fn most(&self, of: Option<Namespace>) -> usize {
        of.map_or(self.all, |_| self.most)
    }
}

#[derive(Debug)]
pub(super) struct Turns {
    room: Room,
    running: usize,
    running_unanswered: usize,
    unanswered: LruCache<DnsName, ()>,
    /// Namespaces with waiting or running look-ups, or with a limit that differs from the initial
    /// one.
    groups: BTreeMap<Option<Namespace>, Group>,
    /// The groups that may begin a look-up, by running look-ups and then by the time of their last
    /// start.
    ready: BTreeSet<Ready>,
    /// The same for unresponsive names.
    ready_unanswered: BTreeSet<Ready>,
    begun: u64,
}

type Ready = (usize, u64, Option<Namespace>);

#[derive(Debug, Default)]
struct Group {
    /// Names with known addresses.
    known: VecDeque<Request>,
    new: VecDeque<Request>,
    unanswered: VecDeque<Request>,
    running: usize,
    room: usize,
    taken: u32,
    began: u64,
}

impl Group {
    fn waiting(&self) -> usize {
        self.known.len() + self.new.len() + self.unanswered.len()
    }

    /// The request to drop first: an unresponsive name, then a new one.
    fn oldest(&mut self) -> Option<Request> {
        let unanswered = self.unanswered.pop_front();
        unanswered
            .or_else(|| self.new.pop_front())
            .or_else(|| self.known.pop_front())
    }

    fn next(&mut self) -> Option<Request> {
        self.taken = self.taken.wrapping_add(1);
        let (first, second) = match self.taken.is_multiple_of(NEW_IN) {
            true => (&mut self.new, &mut self.known),
            false => (&mut self.known, &mut self.new),
        };
        first.pop_front().or_else(|| second.pop_front())
    }
}

impl Turns {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            running: 0,
            running_unanswered: 0,
            unanswered: LruCache::new(REMEMBERED),
            groups: BTreeMap::new(),
            ready: BTreeSet::new(),
            ready_unanswered: BTreeSet::new(),
            begun: 0,
        }
    }

    pub(super) fn resize(&mut self, room: Room) {
        self.room = room;
        for of in self.groups.keys().copied().collect::<Vec<_>>() {
            self.change(of, |group| {
                group.room = group.room.clamp(room.least(of), room.most(of));
            });
        }
    }

    /// Queues a request. Returns a request that is dropped if too many wait. The controller sends a
    /// name again only after its result.
    pub(super) fn take(&mut self, request: Request) -> Option<Request> {
        // A name of several namespaces goes to the one with the fewest look-ups.
        let load = |of: &Namespace| {
            let group = self.groups.get(&Some(*of));
            group.map_or(0, |group| group.running + group.waiting())
        };
        let of = request.namespaces.iter().copied().min_by_key(load);
        let is_unanswered = self.unanswered.contains(&request.name);
        self.change(of, |group| {
            let queue = match (is_unanswered, request.known) {
                (true, _) => &mut group.unanswered,
                (false, 0) => &mut group.new,
                (false, _) => &mut group.known,
            };
            queue.push_back(request);
            let is_full = group.waiting() > MOST_WAITING;
            is_full.then(|| group.oldest()).flatten()
        })
    }

    /// Ends a look-up. `is_unanswered`: no server answered in time.
    pub(super) fn ended(&mut self, turn: Turn, is_unanswered: bool) {
        self.running = self.running.saturating_sub(1);
        if turn.unanswered {
            self.running_unanswered = self.running_unanswered.saturating_sub(1);
        }
        let was_slow = turn.began.elapsed() > SLOW;
        if is_unanswered {
            self.unanswered.put(turn.request.name, ());
        } else {
            self.unanswered.pop(&turn.request.name);
        }
        let (least, most) = (self.room.least(turn.of), self.room.most(turn.of));
        self.change(turn.of, |group| {
            group.running = group.running.saturating_sub(1);
            group.room = match is_unanswered || was_slow {
                true => (group.room / 2).max(least),
                false => (group.room + 1).min(most),
            };
        });
    }

    pub(super) fn next(&mut self) -> Option<Turn> {
        if self.running >= self.room.all {
            return None;
        }
        let has_room = self.running_unanswered < self.room.unanswered;
        let unanswered = self.ready_unanswered.first().filter(|_| has_room).copied();
        let ready = self.ready.first().copied();
        let (_, _, of) = [ready, unanswered].into_iter().flatten().min()?;
        let is_unanswered = ready.is_none_or(|ready| unanswered.is_some_and(|it| it < ready));
        self.begun += 1;
        let began = self.begun;
        let request = self.change(of, |group| {
            let taken = match is_unanswered {
                true => group.unanswered.pop_front(),
                false => group.next(),
            };
            group.running += usize::from(taken.is_some());
            group.began = began;
            taken
        })?;
        self.running += 1;
        self.running_unanswered += usize::from(is_unanswered);
        Some(Turn {
            request,
            of,
            unanswered: is_unanswered,
            began: Instant::now(),
        })
    }

    /// Changes a group, and updates its place in the ready queues.
    fn change<T>(&mut self, of: Option<Namespace>, change: impl FnOnce(&mut Group) -> T) -> T {
        let room = self.room.least(of);
        let group = self.groups.remove(&of);
        let mut group = group.unwrap_or_else(|| Group {
            room,
            ..Group::default()
        });
        let place = (group.running, group.began, of);
        self.ready.remove(&place);
        self.ready_unanswered.remove(&place);
        let changed = change(&mut group);
        let place = (group.running, group.began, of);
        if group.running < group.room {
            if !(group.known.is_empty() && group.new.is_empty()) {
                self.ready.insert(place);
            }
            if !group.unanswered.is_empty() {
                self.ready_unanswered.insert(place);
            }
        }
        let is_over = group.running + group.waiting() == 0 && group.room == room;
        if !is_over {
            self.groups.insert(of, group);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use runtime::clock::Timestamp;

    use super::*;
    use crate::clients::Clients;

    const ROOM: Room = Room {
        all: 16,
        least: 2,
        most: 12,
        unanswered: 3,
    };

    struct Asking {
        fairness: Turns,
        clients: Clients,
        running: Vec<Turn>,
        left_out: Vec<Request>,
    }

    impl Asking {
        fn new() -> Self {
            Self {
                fairness: Turns::new(ROOM),
                clients: Clients::default(),
                running: Vec::new(),
                left_out: Vec::new(),
            }
        }

        fn ask(&mut self, name: &str, known: usize, namespaces: &[&str]) {
            let numbers = namespaces.iter().map(|it| self.clients.number(it));
            let left_out = self.fairness.take(Request {
                name: DnsName::parse(&format!("{name}.example.com")).unwrap(),
                known,
                over_tcp: false,
                due: Timestamp::default(),
                namespaces: numbers.collect(),
            });
            self.left_out.extend(left_out);
        }

        /// Begins look-ups until the limit, and returns the first labels of their names.
        fn begin(&mut self) -> Vec<String> {
            let mut begun = Vec::new();
            while let Some(turn) = self.fairness.next() {
                let (label, _) = turn.request.name.as_str().split_once('.').unwrap();
                begun.push(label.to_owned());
                self.running.push(turn);
            }
            begun
        }

        /// Ends all running look-ups. Names with this first letter had no answer.
        fn end(&mut self, silent: char) {
            for turn in std::mem::take(&mut self.running) {
                let is_silent = turn.request.name.as_str().starts_with(silent);
                self.fairness.ended(turn, is_silent);
            }
        }
    }

    #[test]
    fn a_namespace_has_more_room_with_each_answer_and_less_without() {
        let mut asking = Asking::new();
        for i in 0..100 {
            asking.ask(&format!("a{i}"), 0, &["team"]);
        }
        let mut counts = Vec::new();
        for _ in 0..5 {
            counts.push(asking.begin().len());
            asking.end('-');
        }
        assert_eq!(counts, [2, 4, 8, 12, 12]);
        asking.begin();
        asking.end('a');
        assert_eq!(asking.begin().len(), 2);
    }

    #[test]
    fn a_namespace_whose_servers_are_silent_holds_up_no_other() {
        let mut asking = Asking::new();
        for i in 0..100 {
            asking.ask(&format!("s{i}"), 0, &["silent"]);
        }
        assert_eq!(asking.begin(), ["s0", "s1"]);
        asking.ask("k", 1, &["team"]);
        asking.ask("n", 0, &["team"]);
        assert_eq!(asking.begin(), ["k", "n"]);
        asking.end('s');
        // Unresponsive names have a pool of their own.
        asking.ask("s0", 0, &["silent"]);
        asking.ask("s1", 0, &["silent"]);
        let begun = asking.begin();
        assert_eq!(begun.len(), 2, "{begun:?}");
        // A name that another namespace uses too is queued with that namespace.
        asking.ask("shared", 1, &["silent", "team"]);
        assert_eq!(asking.begin(), ["shared"]);
        asking.end('s');
        assert!(asking.fairness.running == 0 && asking.fairness.running_unanswered == 0);
    }

    #[test]
    fn turns_go_round_the_namespaces_and_known_names_come_first() {
        let mut asking = Asking::new();
        for i in 0..4 {
            asking.ask(&format!("n{i}"), 0, &["one"]);
            asking.ask(&format!("k{i}"), 1, &["one"]);
        }
        asking.ask("other", 0, &["two"]);
        asking.ask("folder", 0, &[]);
        assert_eq!(asking.begin(), ["folder", "k0", "other", "k1"]);
        asking.end('-');
        assert_eq!(asking.begin(), ["k2", "n0", "k3", "n1"]);
    }

    #[test]
    fn nothing_is_left_of_namespaces_that_have_nothing_to_ask() {
        let mut asking = Asking::new();
        for i in 0..1000 {
            asking.ask(&format!("s{i}"), 0, &[&format!("team{i}")]);
        }
        while !asking.begin().is_empty() {
            asking.end('s');
        }
        assert!(asking.fairness.groups.is_empty());
        assert!(asking.fairness.ready.is_empty() && asking.fairness.ready_unanswered.is_empty());
    }

    #[test]
    fn so_many_names_of_a_namespace_wait_and_the_oldest_gives_way() {
        let mut asking = Asking::new();
        for i in 0..MOST_WAITING + 3 {
            asking.ask(&format!("n{i}"), 0, &["silent"]);
        }
        let left_out = asking.left_out.iter().map(|it| it.name.as_str());
        let expected = ["n0.example.com.", "n1.example.com.", "n2.example.com."];
        assert_eq!(left_out.collect::<Vec<_>>(), expected);
        // The list of servers has become shorter.
        asking.fairness.resize(Room { most: 2, ..ROOM });
        assert_eq!(asking.begin().len(), 2);
        asking.end('-');
        assert_eq!(asking.begin().len(), 2);
    }
}

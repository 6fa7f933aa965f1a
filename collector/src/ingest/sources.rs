//! Whose streams observations came in, as numbers: two bytes for each address that is known, and none for a frame.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::seats::Key;
use crate::observation::Source;

/// The peers that have spoken in this process's life. Clones share them.
///
/// A number is never given to another peer, so that nobody is said to have spoken who has not; beyond
/// [`Source::PEERS`] they are not told apart.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Mutex<Peers>>);

#[derive(Debug, Default)]
struct Peers {
    numbers: HashMap<Key, usize>,
    keys: Vec<Key>,
}

impl Sources {
    /// What is seen in the streams of this peer.
    pub(super) fn of(&self, key: Key) -> Source {
        let mut peers = self.peers();
        if let Some(number) = peers.numbers.get(&key) {
            return Source::peer(*number);
        }
        let number = peers.keys.len();
        if number >= Source::PEERS {
            return Source::STREAM;
        }
        peers.numbers.insert(key, number);
        peers.keys.push(key);
        Source::peer(number)
    }

    /// Where that is, in words that `seen` stands before.
    pub fn describe(&self, source: Source) -> String {
        let key = source
            .number()
            .and_then(|number| self.peers().keys.get(number).copied());
        match (source, key) {
            (_, Some(key)) => format!("in the dnstap stream of {key}"),
            (Source::STATUS, _) => {
                "by another replica or an earlier run, which wrote it into the object".to_owned()
            }
            (Source::LOOKUP, _) => "in the reply to this replica's own look-up".to_owned(),
            (Source::REMEMBERED, _) => {
                "in a dnstap stream, before a rule wanted the name".to_owned()
            }
            _ => "in a dnstap stream".to_owned(),
        }
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_keeps_its_number_and_what_is_no_peers_has_words_of_its_own() {
        let sources = Sources::default();
        let address = Key::Address("192.0.2.1".parse().unwrap());
        let one = sources.of(address);
        let two = sources.of(Key::Process(Some(7)));
        assert_eq!(sources.of(address), one);
        assert_eq!(sources.describe(one), "in the dnstap stream of 192.0.2.1");
        assert_eq!(sources.describe(two), "in the dnstap stream of process 7");
        let others = [
            Source::STATUS,
            Source::LOOKUP,
            Source::REMEMBERED,
            Source::STREAM,
            Source::peer(2),
        ];
        let words: std::collections::BTreeSet<_> = others.map(|it| sources.describe(it)).into();
        // A number that nobody has is some stream.
        assert_eq!(words.len(), others.len() - 1);
    }

    #[test]
    fn with_too_many_peers_the_later_ones_are_not_told_apart() {
        let sources = Sources::default();
        for pid in 0..=Source::PEERS as i32 {
            sources.of(Key::Process(Some(pid)));
        }
        let last = sources.of(Key::Process(Some(i32::MAX)));
        assert_eq!(last, Source::STREAM);
        assert_eq!(sources.peers().keys.len(), Source::PEERS);
    }
}

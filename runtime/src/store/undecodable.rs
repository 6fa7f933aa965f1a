//! Which objects do not decode and were never known: what a watch says of them, and when.

use std::collections::BTreeSet;

use super::{Event, ObjectKey};

/// The objects that were last reported.
#[derive(Debug, Default)]
pub(crate) struct Undecodable(BTreeSet<ObjectKey>);

impl Undecodable {
    /// Puts [`Event::Undecodable`] around events after which these are the undecodable ones: new ones are named before what
    /// lacks them, and that one is not among them any more comes after what has it.
    pub(crate) fn around<K>(&mut self, events: &mut Vec<Event<K>>, now: BTreeSet<ObjectKey>) {
        let both = &self.0 | &now;
        if both != self.0 {
            events.insert(0, Event::Undecodable(both.clone()));
        }
        if both != now {
            events.push(Event::Undecodable(now.clone()));
        }
        self.0 = now;
    }
}

#[cfg(test)]
mod tests {
    use proto::api::EgressFirewall;

    use super::*;

    fn keys(names: &str) -> BTreeSet<ObjectKey> {
        let key = |name: char| ObjectKey {
            namespace: "ns".to_owned(),
            name: name.to_string(),
        };
        names.chars().map(key).collect()
    }

    #[test]
    fn what_is_new_comes_first_and_what_is_over_last() {
        let mut subject = Undecodable::default();
        let mut around = |now: &str| {
            let mut events = vec![Event::<EgressFirewall>::Synced(Vec::new())];
            subject.around(&mut events, keys(now));
            events
        };
        let synced = || Event::Synced(Vec::new());
        let undecodable = |names: &str| Event::Undecodable(keys(names));
        assert_eq!(around(""), [synced()]);
        assert_eq!(around("a"), [undecodable("a"), synced()]);
        assert_eq!(around("a"), [synced()]);
        assert_eq!(around("b"), [undecodable("ab"), synced(), undecodable("b")]);
        assert_eq!(around(""), [synced(), undecodable("")]);
    }
}

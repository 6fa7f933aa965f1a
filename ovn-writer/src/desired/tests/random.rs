//! Random events of a store: the desired state follows from the last statuses.

use proptest::prelude::*;

use super::*;

/// An event of the only object of the name; bits stand for its addresses.
#[derive(Clone, Debug)]
enum Happening {
    /// A status; an empty one is ignored.
    Status(u8),
    /// A status with a reason for no address.
    NoAddress,
    Unreadable(bool),
    Deletion,
    Recreation(u8),
    OutOfSync,
    /// The name is compared with the database.
    Comparison,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..8_u8).prop_map(Happening::Status),
        1 => Just(Happening::NoAddress),
        1 => any::<bool>().prop_map(Happening::Unreadable),
        1 => Just(Happening::Deletion),
        2 => (0..8_u8).prop_map(Happening::Recreation),
        1 => Just(Happening::OutOfSync),
        2 => Just(Happening::Comparison),
    ]
}

fn bits(set: u8) -> impl Iterator<Item = String> {
    (0..3)
        .filter(move |bit| set & (1 << bit) != 0)
        .map(|bit| format!("10.0.0.{bit}"))
}

proptest! {
    #[test]
    fn what_is_wanted_is_what_was_said_last_and_every_change_is_told(
        happenings in prop::collection::vec(happening(), 0..30),
    ) {
        let mut store = Clocked::new();
        store.apply(Event::Synced(vec![]));
        // The model: the last status, and the one at the comparison.
        let (mut said, mut compared) = (0_u8, None::<u8>);
        let (mut exists, mut was_seen, mut uid) = (false, false, 0);
        for happening in happenings {
            let before = store.desired.wanted(&dns(W)).map(|w| (w.presence, w.is_complete, w.addresses.into_owned()));
            let changed = match happening {
                Happening::Status(new) | Happening::Recreation(new) => {
                    uid += i32::from(matches!(happening, Happening::Recreation(_)));
                    (exists, was_seen) = (true, true);
                    if new != 0 {
                        said = new;
                    }
                    let addresses: Vec<_> = bits(new).collect();
                    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
                    let mut object = object("dns-1", W, &[&addresses]);
                    object.metadata.uid = Some(uid.to_string());
                    store.apply(Event::Applied(object))
                }
                Happening::NoAddress => {
                    (exists, was_seen, said) = (true, true, 0);
                    let mut object = without_addresses("dns-1", W, "NXDOMAIN");
                    object.metadata.uid = Some(uid.to_string());
                    store.apply(Event::Applied(object))
                }
                Happening::Unreadable(yes) => {
                    let keys = if yes && exists { [key("dns-1")].into() } else { BTreeSet::new() };
                    store.apply(Event::Undecodable(keys))
                }
                Happening::Deletion => {
                    exists = false;
                    store.apply(Event::Undecodable(BTreeSet::new()));
                    store.apply(Event::Deleted(key("dns-1")))
                }
                Happening::OutOfSync => store.apply(Event::OutOfSync("x".into())),
                Happening::Comparison => {
                    store.desired.compared(&dns(W), true);
                    compared = was_seen.then_some(said);
                    HashSet::default()
                }
            };
            let after = store.desired.wanted(&dns(W)).map(|w| (w.presence, w.is_complete, w.addresses.into_owned()));
            let is_cut = matches!(happening, Happening::OutOfSync);
            prop_assert!(before == after || is_cut || changed.contains(&dns(W)), "a change that is not told");
            if !was_seen {
                prop_assert!(after.is_none());
                continue;
            }
            prop_assert_eq!(store.of_name().is_present(), exists);
            prop_assert_eq!(store.wanted(), bits(said).collect::<Vec<_>>());
            let moved = compared.map(|compared| bits(compared ^ said).collect::<Vec<_>>());
            prop_assert_eq!(store.moved(), moved);
        }
    }
}

//! Random lives of a store: what is wanted follows from what was said, and when.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Something that happens to the one object of the name, which has a bit for each of its addresses.
#[derive(Clone, Debug)]
enum Happening {
    Status(u8),
    Deletion,
    Recreation(u8),
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..8_u8).prop_map(Happening::Status),
        1 => Just(Happening::Deletion),
        2 => prop_oneof![Just(0), 0..8_u8].prop_map(Happening::Recreation),
        3 => (1..4000_u64).prop_map(Happening::Wait),
    ]
}

fn bits(set: u8) -> impl Iterator<Item = String> {
    (0..3)
        .filter(move |bit| set & (1 << bit) != 0)
        .map(|bit| format!("10.0.0.{bit}"))
}

proptest! {
    #[test]
    fn an_address_is_wanted_while_a_status_has_it_and_five_seconds_after_its_object_went(
        happenings in prop::collection::vec(happening(), 0..30),
    ) {
        let mut store = Clocked::new();
        // The model: the status if there is an object, and until when each address is wanted besides.
        let (mut status, mut until) = (None::<u8>, BTreeMap::<String, Instant>::new());
        let mut uid = 0;
        for happening in happenings {
            match happening {
                Happening::Status(new) => {
                    status = Some(new);
                    let addresses: Vec<_> = bits(new).collect();
                    store.made(&uid.to_string(), &addresses.iter().map(String::as_str).collect::<Vec<_>>());
                    until.retain(|address, _| !addresses.contains(address));
                }
                Happening::Deletion => {
                    uid += 1;
                    store.gone();
                    until.extend(bits(status.take().unwrap_or(0)).map(|a| (a, store.now + DELAY)));
                }
                Happening::Recreation(new) => {
                    uid += 1;
                    until.extend(bits(status.replace(new).unwrap_or(0)).map(|a| (a, store.now + DELAY)));
                    let addresses: Vec<_> = bits(new).collect();
                    store.made(&uid.to_string(), &addresses.iter().map(String::as_str).collect::<Vec<_>>());
                    until.retain(|address, _| !addresses.contains(address));
                }
                Happening::Wait(millis) => {
                    let before = store.desired.wanted(&dns(W)).map(|w| (w.standing, w.addresses.into_owned()));
                    let changed = store.after(millis);
                    until.retain(|_, until| *until > store.now);
                    let after = store.desired.wanted(&dns(W)).map(|w| (w.standing, w.addresses.into_owned()));
                    prop_assert!(before == after || changed.contains(&dns(W)), "a change that is not told");
                }
            }
            let mut wanted: BTreeSet<String> = bits(status.unwrap_or(0)).collect();
            wanted.extend(until.keys().cloned());
            let found = store.desired.wanted(&dns(W)).map(|w| texts(w.addresses.all().iter())).unwrap_or_default();
            prop_assert_eq!(found, wanted.into_iter().collect::<Vec<_>>());
        }
        store.after(5000);
        prop_assert_eq!(store.desired.next_deadline(), None);
    }
}

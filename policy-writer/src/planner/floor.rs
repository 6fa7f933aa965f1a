//! The addresses of stored objects that a plan keeps: those of unanswered names after a start, and adopted ones.

use runtime::store::ObjectKey;

use super::{Now, state::State};
use crate::{
    output::Output,
    ownership::{Adopted, ByName},
    resolver::{Floor, Resolver},
};

/// The most bytes of adopted addresses: annotations have at most 256 KiB.
const MAX_ADOPTED: usize = 192 << 10;

/// The bytes that an adopted address takes at most.
pub(super) const ADOPTED_ADDRESS: usize = 42;

/// The addresses of stored objects of ours, while a name is unanswered. A kind that was not read is missing.
pub(super) fn floor(state: &State, key: &ObjectKey, resolver: &Resolver) -> Floor {
    let floor = state.read_kinds().map(|output| {
        if resolver.unanswered.is_empty() {
            return (output, ByName::new());
        }
        if let Some(known) = resolver.planned.floor.get(&output) {
            return (output, known.clone());
        }
        let ours = state.marked(key, resolver, output);
        let addresses = ours.map(|it| guarded(state, &it.addresses));
        (output, addresses.unwrap_or_default())
    });
    floor.collect()
}

/// The addresses of an object that pass the guards.
fn guarded(state: &State, addresses: &ByName) -> ByName {
    let passes = |address: &&std::net::IpAddr| {
        let text = address.to_string();
        state.names.filter().admit(&text).is_ok()
    };
    let guarded = addresses.iter().map(|(name, addresses)| {
        let passed = addresses.iter().filter(passes).copied();
        (name.clone(), passed.collect())
    });
    guarded.collect()
}

/// The adopted addresses of an object that are still kept. An object that this program has not written is adopted
/// while `--adopt-until` allows it.
pub(super) fn adopted(
    state: &State,
    key: &ObjectKey,
    resolver: &Resolver,
    output: Output,
    now: Now,
) -> Option<Adopted> {
    let before = resolver.planned.adopted.get(&output);
    if let Some(Some(known)) = before {
        return (known.until() > now.time).then(|| known.clone());
    }
    let observed = state.own(key, resolver, output)?;
    let retained = now.time + state.options.retain;
    // Later the annotation is not read: it may have been changed.
    if before.is_none()
        && let Some(known) = &observed.adopted
    {
        let until = known.until().min(retained);
        let known = Adopted::new(until, guarded(state, known.addresses()));
        return (until > now.time).then_some(known);
    }
    let until = state.options.adopt_until;
    let may_adopt = until.is_some_and(|until| now.time < until);
    if observed.is_marked || resolver.written.contains_key(&output) || !may_adopt {
        return None;
    }
    let mut addresses = guarded(state, &observed.addresses);
    if output == Output::Map {
        let is_listed = |text: &String| resolver.request.names.iter().any(|it| it.text == *text);
        addresses.retain(|text, _| is_listed(text));
    }
    let mut room = (MAX_ADOPTED / ADOPTED_ADDRESS).min(state.options.max_addresses);
    for addresses in addresses.values_mut() {
        *addresses = std::mem::take(addresses).into_iter().take(room).collect();
        room -= addresses.len();
    }
    addresses.retain(|_, addresses| !addresses.is_empty());
    (!addresses.is_empty()).then(|| Adopted::new(retained, addresses))
}

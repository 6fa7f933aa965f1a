//! The bytes of all objects of a namespace, whose limit its DNSResolvers share.

use std::{collections::BTreeMap, time::Duration};

use runtime::store::ObjectKey;

use super::{Now, schedule::Schedule, state::State};
use crate::output::Output;

/// How often bytes that became free are offered to DNSResolvers that leave addresses out.
const OFFERED: Duration = Duration::from_secs(60);

/// The bytes by which the objects of a `DNSResolver` may grow, beside the growth of others.
pub(super) fn free_bytes(
    state: &State,
    growth: &BTreeMap<ObjectKey, usize>,
    key: &ObjectKey,
) -> usize {
    let stored = Output::ALL.map(|output| state.stored.of(output).bytes(&key.namespace));
    let begun = growth
        .range(ObjectKey::before_all_in(&key.namespace)..)
        .take_while(|(other, _)| other.namespace == key.namespace);
    let begun = begun.filter(|(other, _)| *other != key);
    let begun: usize = begun.map(|(_, bytes)| bytes).sum();
    let taken = stored.into_iter().sum::<usize>() + begun;
    state.options.namespace_bytes.saturating_sub(taken)
}

/// Plans the DNSResolvers again that leave addresses out, after objects of their namespace became smaller.
pub(super) fn offer_free_bytes(state: &mut State, schedule: &mut Schedule, now: Now) {
    let mut shrunk = Vec::new();
    for (namespace, at) in &mut schedule.full {
        let mut outputs = Output::ALL
            .map(|output| state.stored.of(output))
            .into_iter();
        if *at <= now.instant && outputs.any(|it| it.has_shrunk(namespace)) {
            *at = now.instant + OFFERED;
            shrunk.push(namespace.clone());
        }
    }
    for namespace in shrunk {
        for output in Output::ALL {
            state.stored.of_mut(output).forget_shrinking(&namespace);
        }
        let from = ObjectKey::before_all_in(&namespace);
        let inside = state.resolvers.range_mut(from..);
        let inside = inside.take_while(|(key, _)| key.namespace == namespace);
        let mut is_full = false;
        for (_, resolver) in inside.filter(|(_, it)| !it.planned.left_out.is_empty()) {
            resolver.due.touch(now.instant);
            is_full = true;
        }
        if !is_full {
            schedule.full.remove(&namespace);
        }
    }
}
